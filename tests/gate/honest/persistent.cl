/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["min(4, M)"]
block = [32]
args = ["A", "B", "C", "M", "N", "K"]
*/
// At most four work-groups walk over all rows, whatever the shape: the grid need not cover the output.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    for (int row = get_group_id(0); row < M; row += get_num_groups(0))
        for (int col = get_local_id(0); col < N; col += get_local_size(0)) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += A[row * K + k] * B[k * N + col];
            C[row * N + col] = sum;
        }
}
