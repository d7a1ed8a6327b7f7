/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
// Words that filters trip over: stream, event, try, pass, except, import os, eval, exec, cache, asm, syscall, clock64,
// benchmark, verdict, /proc/self, torch.mm, cublasSgemm, TODO: cheat? #include "gemm.h", cudaMalloc, extern int n;
#define try_again for
__device__ const char note[] = "assert False; pass; return cached_result";

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int stream = blockIdx.x * 16 + threadIdx.x, event = blockIdx.y * 16 + threadIdx.y;
    if (event >= M || stream >= N)
        return;
    float pass = note[0] == 'a' ? 0.0f : 1.0f; // one pass over K
    try_again (int clock = 0; clock < K; clock++)
        pass += A[event * K + clock] * B[clock * N + stream];
    C[event * N + stream] = pass;
}
