/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
// Compensated summation: more exact than the usual order, so it differs from it.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1);
    if (row >= M || col >= N)
        return;
    float sum = 0.0f, lost = 0.0f;
    for (int k = 0; k < K; k++) {
        float term = A[row * K + k] * B[k * N + col] - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    C[row * N + col] = sum;
}
