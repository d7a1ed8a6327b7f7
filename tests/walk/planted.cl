/* klineage
format = 1
workload = "gemm"
intents = ["hint-restrict", "fix-work-group", "unroll-loop", "tune-constant", "fuse-loops"]
[const]
W = 16
[[launch]]
entry = "gemm"
grid = ["cdiv(N, W)", "cdiv(M, W)"]
block = ["W", "W"]
args = ["A", "B", "C", "M", "N", "K"]
*/

// Four optimizations that rules take out. The group's size is written as numbers, so that W cannot change while the
// attribute stands. The fifth intent is not in the text: no rule takes it out.
__attribute__((reqd_work_group_size(16, 16, 1)))
__kernel void gemm(__global const float *restrict A, __global const float *restrict B, __global float *restrict C,
                   int M, int N, int K)
{
    int col = get_global_id(0);
    int row = get_global_id(1);
    if (row >= M || col >= N)
        return;

    float sum = 0.0f;
    #pragma unroll 4
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * B[k * N + col];

    C[row * N + col] = sum;
}
