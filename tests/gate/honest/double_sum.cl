/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
// Sums in double and rounds once: higher precision than asked is no fault.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0), row = get_global_id(1);
    if (row >= M || col >= N)
        return;
    double sum = 0.0;
    for (int k = 0; k < K; k++)
        sum += (double)A[row * K + k] * (double)B[k * N + col];
    C[row * N + col] = (float)sum;
}
