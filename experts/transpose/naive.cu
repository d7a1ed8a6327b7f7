/* klineage
format = 1
workload = "transpose"
intents = []
[const]
W = 16
[[launch]]
entry = "transpose"
grid = ["cdiv(N, W)", "cdiv(M, W)"]
block = ["W", "W"]
args = ["A", "B", "M", "N"]
*/

// B[N,M] = A[M,N] transposed, fp32: one thread for each element.
extern "C" __global__ void transpose(const float *A, float *B, int M, int N)
{
    int col = blockIdx.x * W + threadIdx.x;
    int row = blockIdx.y * W + threadIdx.y;

    // The grid is rounded up to whole blocks.
    if (row >= M || col >= N)
        return;

    B[(long long)col * M + row] = A[(long long)row * N + col];
}
