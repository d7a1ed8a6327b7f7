/* klineage
format = 1
workload = "gemm"
[const]
PARTS = 4
[workspace]
parts = { dtype = "f32", shape = ["PARTS", "M", "N"] }
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)", "PARTS"]
block = [16, 16]
args = ["A", "B", "parts", "M", "N", "K"]
[[launch]]
entry = "add"
grid = ["cdiv(M * N, 256)"]
block = [256]
args = ["parts", "C", "M", "N"]
*/
extern "C" __global__ void gemm(const float *A, const float *B, float *parts, int M, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = blockIdx.z; k < K; k += PARTS)
        sum += A[row * K + k] * B[k * N + col];
    parts[((long long)blockIdx.z * M + row) * N + col] = sum;
}

extern "C" __global__ void add(const float *parts, float *C, int M, int N)
{
    int at = blockIdx.x * 256 + threadIdx.x;
    if (at >= M * N)
        return;
    float sum = 0.0f;
    for (int part = 0; part < PARTS; part++)
        sum += parts[(long long)part * M * N + at];
    C[at] = sum;
}
