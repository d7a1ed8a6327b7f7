/* klineage
format = 1
workload = "gemm"
[const]
W = 0x10
[require]
size = "0 < M and 0 < N and not K < 1"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, W) if N > 0 else 1", "max(1, cdiv(M, min(W, 99)))"]
block = ["W", "up(W, 4) // (1 + (M < 0))"]
args = ["A", "B", "C", "M", "N", "K"]
*/
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
