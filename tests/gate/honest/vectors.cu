/* klineage
format = 1
workload = "gemm"
[require]
whole_vectors = "N % 4 == 0"
[[launch]]
entry = "gemm"
grid = ["cdiv(N // 4, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int col = (blockIdx.x * 16 + threadIdx.x) * 4, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < K; k++) {
        float a = A[row * K + k];
        float4 b = *(const float4 *)(B + k * N + col);
        sum.x += a * b.x, sum.y += a * b.y, sum.z += a * b.z, sum.w += a * b.w;
    }
    *(float4 *)(C + row * N + col) = sum;
}
