/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["N", "cdiv(M, 4)"]
block = [32, 4]
args = ["A", "B", "C", "M", "N", "K"]
*/
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int lane = threadIdx.x, col = blockIdx.x, row = blockIdx.y * 4 + threadIdx.y;
    if (row >= M)
        return;
    float sum = 0.0f;
    for (int k = lane; k < K; k += 32)
        sum += A[row * K + k] * B[k * N + col];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0)
        C[row * N + col] = sum;
}
