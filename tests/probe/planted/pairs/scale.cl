/* klineage
format = 1
workload = "rowscale"
[[launch]]
entry = "rowscale"
grid = ["R"]
block = [1]
args = ["X", "B", "Y", "R", "N"]
*/

// One work-item for each row.
__kernel void rowscale(__global const float *X, __global const float *B, __global float *Y, int R, int N)
{
    int r = get_global_id(0);

    for (int j = 0; j < N; j++)
        Y[r * N + j] = 2.0f * X[r * N + j] + B[r];
}
