/* klineage
format = 1
workload = "gemm"
[const]
W = 32
[[launch]]
entry = "gemm"
grid = ["cdiv(N, W)", "cdiv(M, W)"]
block = ["W", "W"]
args = ["A", "B", "C", "M", "N", "K"]
*/
extern "C" __global__ __launch_bounds__(1024) void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float a[W][W], b[W][W + 1];
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * W + x, row = blockIdx.y * W + y;
    float sum = 0.0f;
    for (int k = 0; k < K; k += W) {
        a[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
        b[y][x] = col < N && k + y < K ? B[(k + y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < W; i++)
            sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
