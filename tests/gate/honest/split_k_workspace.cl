/* klineage
format = 1
workload = "gemm"
[const]
S = 3
[workspace]
parts = { dtype = "f32", shape = ["S", "M", "N"], zero = true }
[[launch]]
entry = "slices"
grid = ["cdiv(N, 8)", "cdiv(M, 8)", "S"]
block = [8, 8, 1]
args = ["A", "B", "parts", "M", "N", "K"]
[[launch]]
entry = "reduce"
grid = ["cdiv(M * N, 64)"]
block = [64]
args = ["parts", "C", "M", "N"]
*/
// Split-K through a workspace. An empty slice writes nothing and relies on zero = true.
__kernel void slices(__global const float *A, __global const float *B, __global float *parts, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1), s = get_group_id(2), step = (K + S - 1) / S;
    if (row >= M || col >= N || s * step >= K)
        return;
    float sum = 0.0f;
    for (int k = s * step; k < min(s * step + step, K); k++)
        sum += A[row * K + k] * B[k * N + col];
    parts[(s * M + row) * N + col] += sum;
}

__kernel void reduce(__global const float *parts, __global float *C, int M, int N)
{
    int i = get_global_id(0);
    float sum = 0.0f;
    for (int s = 0; s < S && i < M * N; s++)
        sum += parts[s * M * N + i];
    if (i < M * N)
        C[i] = sum;
}
