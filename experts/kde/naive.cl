/* klineage
format = 1
workload = "kde"
intents = []
[const]
W = 16
[[launch]]
entry = "kde"
grid = ["cdiv(M, W)"]
block = ["W"]
args = ["q", "x", "y", "M", "N"]
*/

// y[M] = sum over x[N] of exp(-(q - x)^2 / 2), fp32: one work-item for each element of y.
__kernel void kde(__global const float *q, __global const float *x, __global float *y, int M, int N)
{
    int row = get_global_id(0);

    // The grid is rounded up to whole work-groups.
    if (row >= M)
        return;

    float at = q[row];

    float sum = 0.0f;
    for (int j = 0; j < N; j++)
        sum += exp(-0.5f * (at - x[j]) * (at - x[j]));

    y[row] = sum;
}
