/* klineage
format = 1
workload = "gemm"
intents = []
[const]
WX = 16
WY = 16
[[launch]]
entry = "gemm"
grid = ["cdiv(N, WX)", "cdiv(M, WY)"]
block = ["WX", "WY"]
args = ["A", "B", "C", "M", "N", "K"]
*/

#include <cuda_bf16.h>

// C[M,N] = A[M,K] * B[K,N], row-major bf16, added in fp32: one thread for each element of C.
extern "C" __global__ void gemm(const __nv_bfloat16 *A, const __nv_bfloat16 *B, __nv_bfloat16 *C, int M, int N, int K)
{
    int col = blockIdx.x * WX + threadIdx.x;
    int row = blockIdx.y * WY + threadIdx.y;

    // The grid is rounded up to whole blocks.
    if (row >= M || col >= N)
        return;

    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += __bfloat162float(A[(long long)row * K + k]) * __bfloat162float(B[(long long)k * N + col]);

    C[(long long)row * N + col] = __float2bfloat16(sum);
}
