/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
__constant__ float ones[4] = {1.0f, 1.0f, 1.0f, 1.0f};

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += ones[k & 3] * A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
