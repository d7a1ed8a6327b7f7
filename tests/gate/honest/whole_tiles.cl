/* klineage
format = 1
workload = "gemm"
[const]
R = 4
[require]
rows = "M % R == 0"
columns = "N % 16 == 0"
depth = "K % 4 == 0 and K >= 4"
[[launch]]
entry = "gemm"
grid = ["N // 16", "cdiv(M, R * 4)"]
block = [4, 4]
args = ["A", "B", "C", "M", "N", "K"]
*/
// R x 4 elements for each work-item, no column tails: [require] says so, and is wider than the minimal domain.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0) * 4, row = get_global_id(1) * R;
    if (row >= M)
        return;
    float4 sum[R];
    for (int r = 0; r < R; r++)
        sum[r] = 0.0f;
    for (int k = 0; k < K; k++) {
        float4 b = vload4(0, B + k * N + col);
        for (int r = 0; r < R; r++)
            sum[r] += A[(row + r) * K + k] * b;
    }
    for (int r = 0; r < R; r++)
        vstore4(sum[r], 0, C + (row + r) * N + col);
}
