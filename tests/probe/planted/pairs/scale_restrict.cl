/* klineage
format = 1
workload = "rowscale"
[[launch]]
entry = "rowscale"
grid = ["R"]
block = [1]
args = ["X", "B", "Y", "R", "N"]
*/

// One work-item for each row; the buffers do not overlap.
__kernel void rowscale(__global const float *restrict X, __global const float *restrict B, __global float *restrict Y,
                       int R, int N)
{
    int r = get_global_id(0);

    for (int j = 0; j < N; j++)
        Y[r * N + j] = 2.0f * X[r * N + j] + B[r];
}
