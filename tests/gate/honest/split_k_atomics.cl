/* klineage
format = 1
workload = "gemm"
[const]
S = 4
[[launch]]
entry = "clear"
grid = ["cdiv(M * N, 64)"]
block = [64]
args = ["C", "M", "N"]
[[launch]]
entry = "add_slice"
grid = ["cdiv(N, 8)", "cdiv(M, 8)", "S"]
block = [8, 8, 1]
args = ["A", "B", "C", "M", "N", "K"]
*/
// Split-K: slices are added by compare-and-swap in whatever order they end, so the last bits differ from run to run.
__kernel void clear(__global float *C, int M, int N)
{
    int i = get_global_id(0);
    if (i < M * N)
        C[i] = 0.0f;
}

__kernel void add_slice(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1), step = (K + S - 1) / S;
    int begin = get_group_id(2) * step, end = min(begin + step, K);
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = begin; k < end; k++)
        sum += A[row * K + k] * B[k * N + col];
    volatile __global uint *cell = (volatile __global uint *)(C + row * N + col);
    uint old = atomic_or(cell, 0u), seen;
    while ((seen = atomic_cmpxchg(cell, old, as_uint(as_float(old) + sum))) != old)
        old = seen;
}
