/* klineage
format = 1
workload = "gemm"
options = ["-cl-mad-enable"]
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
// K runs backwards through four interleaved sums and fused multiply-adds: other roundings than the reference order.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1);
    if (row >= M || col >= N)
        return;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = K - 1; k >= 0; k--)
        sum[k & 3] = fma(A[row * K + k], B[k * N + col], sum[k & 3]);
    C[row * N + col] = (sum[3] + sum[0]) + (sum[2] + sum[1]);
}
