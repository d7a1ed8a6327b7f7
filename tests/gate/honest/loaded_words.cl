/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
// Words that filters trip over: stream, event, try, pass, except, import os, eval, exec, cache, asm, syscall, clock,
// benchmark, verdict, /proc/self, torch.mm, TODO: cheat? #include "gemm.h", __global int n;
#define try_again for
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int stream = get_global_id(0), event = get_global_id(1);
    if (event >= M || stream >= N)
        return;
    float pass = 0.0f; // one pass over K
    try_again (int clock = 0; clock < K; clock++)
        pass += A[event * K + clock] * B[clock * N + stream];
    C[event * N + stream] = pass;
}
