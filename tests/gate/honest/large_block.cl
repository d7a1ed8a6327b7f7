/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 32)", "cdiv(M, 32)"]
block = [32, 32]
args = ["A", "B", "C", "M", "N", "K"]
*/
// 1,024 work-items a group, most of them idle on small shapes.
__kernel __attribute__((reqd_work_group_size(32, 32, 1)))
void gemm(__global const float *restrict A, __global const float *restrict B, __global float *restrict C, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1);
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
