/* klineage
format = 1
workload = "gemv"
intents = []
[const]
W = 16
[[launch]]
entry = "gemv"
grid = ["cdiv(M, W)"]
block = ["W"]
args = ["A", "x", "y", "M", "K"]
*/

// y[M] = A[M,K] * x[K], A row-major fp32: one work-item for each element of y.
__kernel void gemv(__global const float *A, __global const float *x, __global float *y, int M, int K)
{
    int row = get_global_id(0);

    // The grid is rounded up to whole work-groups.
    if (row >= M)
        return;

    __global const float *a = A + row * K;

    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += a[k] * x[k];

    y[row] = sum;
}
