/* klineage
format = 1
workload = "gemm"
intents = ["stage-tile"]
[const]
T = 16
[[launch]]
entry = "gemm"
grid = ["cdiv(N, T)", "cdiv(M, T)"]
block = ["T", "T"]
args = ["A", "B", "C", "M", "N", "K"]
*/
// Tiles of A and B staged in local memory, two barriers a step, zero fill at the tails.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    __local float a[T][T], b[T][T];
    int x = get_local_id(0), y = get_local_id(1);
    int col = get_group_id(0) * T + x, row = get_group_id(1) * T + y;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        b[y][x] = col < N && k0 + y < K ? B[(k0 + y) * N + col] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < T; k++)
            sum += a[y][k] * b[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
