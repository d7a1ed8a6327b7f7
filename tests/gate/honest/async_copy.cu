/* klineage
format = 1
workload = "gemm"
[const]
W = 16
[[launch]]
entry = "gemm"
grid = ["cdiv(N, W)", "cdiv(M, W)"]
block = ["W", "W"]
args = ["A", "B", "C", "M", "N", "K"]
*/

// Four bytes from global to shared memory, or zeros where there is nothing to bring.
__device__ void bring(float *to, const float *from, bool there)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(there ? 4 : 0) : "memory");
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float a[2][W][W], b[2][W][W];
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * W + x, row = blockIdx.y * W + y;
    float sum = 0.0f;
    for (int k = 0, turn = 0; k < K; k += W, turn ^= 1) {
        bool in_a = row < M && k + x < K, in_b = col < N && k + y < K;
        bring(&a[turn][y][x], in_a ? A + row * K + k + x : A, in_a);
        bring(&b[turn][y][x], in_b ? B + (k + y) * N + col : B, in_b);
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        for (int i = 0; i < W; i++)
            sum += a[turn][y][i] * b[turn][i][x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
