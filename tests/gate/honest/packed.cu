/* klineage
format = 1
workload = "gemm"
[workspace]
Bt = { dtype = "f32", shape = ["N", "K"] }
[[launch]]
entry = "transpose"
grid = ["cdiv(N, 16)", "cdiv(K, 16)"]
block = [16, 16]
args = ["B", "Bt", "N", "K"]
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "Bt", "C", "M", "N", "K"]
*/
extern "C" __global__ void transpose(const float *B, float *Bt, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, k = blockIdx.y * 16 + threadIdx.y;
    if (col < N && k < K)
        Bt[col * K + k] = B[k * N + col];
}

extern "C" __global__ void gemm(const float *A, const float *Bt, float *C, int M, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * Bt[col * K + k];
    C[row * N + col] = sum;
}
