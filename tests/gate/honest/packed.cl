/* klineage
format = 1
workload = "gemm"
intents = ["pack-operand"]
[workspace]
columns = { dtype = "f32", shape = ["N", "K"] }
[[launch]]
entry = "pack"
grid = ["cdiv(K, 16)", "cdiv(N, 16)"]
block = [16, 16]
args = ["B", "columns", "N", "K"]
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "columns", "C", "M", "N", "K"]
*/
// Two launches: B is transposed into an uncleared workspace, then both operands are read along K.
__kernel void pack(__global const float *B, __global float *columns, int N, int K)
{
    int k = get_global_id(0), col = get_global_id(1);
    if (k < K && col < N)
        columns[col * K + k] = B[k * N + col];
}

__kernel void gemm(__global const float *A, __global const float *columns, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1);
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * columns[col * K + k];
    C[row * N + col] = sum;
}
