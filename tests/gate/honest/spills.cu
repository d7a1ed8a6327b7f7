/* klineage
format = 1
workload = "gemm"
options = ["--maxrregcount=24"]
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 128)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = (blockIdx.y * 16 + threadIdx.y) * 8;
    if (row >= M || col >= N)
        return;
    float sums[8] = {}, next[8];
    for (int k = 0; k < K; k++) {
        float b = B[k * N + col];
#pragma unroll
        for (int i = 0; i < 8; i++)
            next[i] = row + i < M ? A[(row + i) * K + k] : 0.0f;
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[i] += next[i] * b;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (row + i < M)
            C[(row + i) * N + col] = sums[i];
}
