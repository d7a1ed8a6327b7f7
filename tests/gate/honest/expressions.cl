/* klineage
format = 1
workload = "gemm"
intents = ["register-tile", "new:column-walk"]
options = ["-cl-std=CL2.0"]
[const]
W = 8
H = 2
[require]
some = "M >= 1 and not N < 1"
[[launch]]
entry = "gemm"
grid = ["max(1, up(N, W) // W)", "(M + H - 1) // H if M > H else 1"]
block = ["W", "min(H, 2)"]
args = ["A", "B", "C", "M", "N", "K"]
*/
// The manifest uses most of what its expressions may hold: conditions, up, min, max, constants, an open intent.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_group_id(0) * W + get_local_id(0), row = get_group_id(1) * H + get_local_id(1);
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
