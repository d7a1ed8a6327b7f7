/* klineage
format = 1
workload = "gemm"
[const]
W = 16
DEEP = 512
[[launch]]
entry = "gemm"
grid = ["cdiv(N, W)", "cdiv(M, W)"]
block = ["W", "W"]
shared = "2 * W * (DEEP + W) * 4"
args = ["A", "B", "C", "M", "N", "K"]
*/

extern __shared__ float room[];

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    float *a = room, *b = room + W * (DEEP + W);
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * W + x, row = blockIdx.y * W + y;
    float sum = 0.0f;
    for (int from = 0; from < K; from += DEEP) {
        for (int k = 0; k < DEEP; k += W) {
            int at = from + k;
            a[y * (DEEP + W) + k + x] = row < M && at + x < K ? A[row * K + at + x] : 0.0f;
            b[(k + y) * W + x] = col < N && at + y < K ? B[(at + y) * N + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < DEEP && from + k < K; k++)
            sum += a[y * (DEEP + W) + k] * b[k * W + x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
