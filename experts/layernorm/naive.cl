/* klineage
format = 1
workload = "layernorm"
intents = []
[const]
W = 16
[[launch]]
entry = "layernorm"
grid = ["cdiv(R, W)"]
block = ["W"]
args = ["X", "G", "B", "Y", "eps", "R", "N"]
*/

// Y[R,N] = (X - mean) / sqrt(variance + eps) * G[N] + B[N], mean and variance of each row, row-major fp32: one
// work-item for each row.
__kernel void layernorm(__global const float *X, __global const float *G, __global const float *B, __global float *Y,
                        float eps, int R, int N)
{
    int row = get_global_id(0);

    // The grid is rounded up to whole work-groups.
    if (row >= R)
        return;

    __global const float *x = X + row * N;
    __global float *y = Y + row * N;

    float sum = 0.0f;
    for (int j = 0; j < N; j++)
        sum += x[j];
    float mean = sum / N;

    // Around the mean: a mean of squares less a squared mean cancels where the mean is large.
    float squares = 0.0f;
    for (int j = 0; j < N; j++)
        squares += (x[j] - mean) * (x[j] - mean);
    float scale = 1.0f / sqrt(squares / N + eps);

    for (int j = 0; j < N; j++)
        y[j] = (x[j] - mean) * scale * G[j] + B[j];
}
