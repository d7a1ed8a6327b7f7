/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(M * N, 64)"]
block = [64]
args = ["A", "B", "C", "M", "N", "K"]
*/
// A one-dimensional launch; row and column by division.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int i = get_global_id(0);
    if (i >= M * N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[i / N * K + k] * B[k * N + i % N];
    C[i] = sum;
}
