/* klineage
format = 1
workload = "gemm"
options = ["-cl-fast-relaxed-math", "-cl-mad-enable", "-cl-no-signed-zeros", "-cl-denorms-are-zero"]
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
// Every relaxed option of the allow-list: the compiler may reorder and fuse, and the sum stays within the bound.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1);
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum = mad(A[row * K + k], B[k * N + col], sum);
    C[row * N + col] = sum;
}
