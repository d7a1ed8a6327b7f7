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

// C[M,N] = A[M,K] * B[K,N], row-major fp32: one work-item for each element of C.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0);
    int row = get_global_id(1);

    // The grid is rounded up to whole work-groups.
    if (row >= M || col >= N)
        return;

    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * B[k * N + col];

    C[row * N + col] = sum;
}
