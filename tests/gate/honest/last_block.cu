/* klineage
format = 1
workload = "gemm"
[const]
PARTS = 3
[workspace]
parts = { dtype = "f32", shape = ["PARTS", "M", "N"] }
count = { dtype = "u32", shape = ["cdiv(M, 16)", "cdiv(N, 16)"], zero = true }
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)", "PARTS"]
block = [16, 16]
args = ["A", "B", "parts", "count", "C", "M", "N", "K"]
*/
extern "C" __global__ void gemm(const float *A, const float *B, float *parts, unsigned *count, float *C, int M, int N, int K)
{
    __shared__ bool last;
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    bool inside = row < M && col < N;
    if (inside) {
        float sum = 0.0f;
        for (int k = blockIdx.z; k < K; k += PARTS)
            sum += A[row * K + k] * B[k * N + col];
        parts[((long long)blockIdx.z * M + row) * N + col] = sum;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0)
        last = atomicAdd(&count[blockIdx.y * gridDim.x + blockIdx.x], 1u) == PARTS - 1;
    __syncthreads();
    if (!last || !inside)
        return;
    __threadfence();
    float sum = 0.0f;
    for (int part = 0; part < PARTS; part++)
        sum += ((volatile float *)parts)[((long long)part * M + row) * N + col];
    C[row * N + col] = sum;
}
