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
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    if (K % 4 == 0) {
        // Rows of A start at multiples of 16 bytes.
        for (int k = 0; k < K; k += 4) {
            float4 a = *(const float4 *)(A + row * K + k);
            const float *b = B + k * N + col;
            sum += a.x * b[0] + a.y * b[N] + a.z * b[2 * N] + a.w * b[3 * N];
        }
    } else {
        for (int k = 0; k < K; k++)
            sum += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = sum;
}
