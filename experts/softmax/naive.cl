/* klineage
format = 1
workload = "softmax"
intents = []
[const]
W = 16
[[launch]]
entry = "softmax"
grid = ["cdiv(R, W)"]
block = ["W"]
args = ["X", "Y", "R", "N"]
*/

// Y[R,N] = softmax of each row of X, row-major fp32: one work-item for each row.
__kernel void softmax(__global const float *X, __global float *Y, int R, int N)
{
    int row = get_global_id(0);

    // The grid is rounded up to whole work-groups.
    if (row >= R)
        return;

    __global const float *x = X + row * N;
    __global float *y = Y + row * N;

    // Large scores overflow exp, unless the largest is subtracted.
    float largest = -INFINITY;
    for (int j = 0; j < N; j++)
        largest = fmax(largest, x[j]);

    float sum = 0.0f;
    for (int j = 0; j < N; j++)
        sum += exp(x[j] - largest);

    for (int j = 0; j < N; j++)
        y[j] = exp(x[j] - largest) / sum;
}
