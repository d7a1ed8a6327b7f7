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
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (y >= M || x >= N)
        return;
    float total = 0.0f;
    for (int i = 0; i < K; i++)
        total += A[y * K + i] * B[i * N + x];
    C[y * N + x] = total;
}
