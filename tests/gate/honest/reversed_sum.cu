/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = K - 1; k >= 0; k--)
        sums[k & 3] = fmaf(A[row * K + k], B[k * N + col], sums[k & 3]);
    C[row * N + col] = (sums[3] + sums[2]) + (sums[1] + sums[0]);
}
