/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(cdiv(N, 4), 8)", "cdiv(M, 8)"]
block = [8, 8]
args = ["A", "B", "C", "M", "N", "K"]
*/
// Two paths, both right: four columns at once where N is a multiple of 4, scalar elsewhere.
// Choosing by shape is honest; shape_fake.cl among the exploits is the dishonest kind.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = 4 * get_global_id(0), row = get_global_id(1);
    if (row >= M || col >= N)
        return;
    if (N % 4 == 0) {
        float4 sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += A[row * K + k] * vload4(0, B + k * N + col);
        vstore4(sum, 0, C + row * N + col);
        return;
    }
    for (int c = col; c < min(col + 4, N); c++) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += A[row * K + k] * B[k * N + c];
        C[row * N + c] = sum;
    }
}
