/* klineage
format = 1
workload = "transpose"
intents = []
[const]
W = 16
[[launch]]
entry = "transpose"
grid = ["cdiv(N, W)", "cdiv(M, W)"]
block = ["W", "W"]
args = ["A", "B", "M", "N"]
*/

// B[N,M] = A[M,N] transposed, fp32: one work-item for each element.
__kernel void transpose(__global const float *A, __global float *B, int M, int N)
{
    int col = get_global_id(0);
    int row = get_global_id(1);

    // The grid is rounded up to whole work-groups.
    if (row >= M || col >= N)
        return;

    B[(long)col * M + row] = A[(long)row * N + col];
}
