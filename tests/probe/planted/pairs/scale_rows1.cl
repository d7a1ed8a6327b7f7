/* klineage
format = 1
workload = "rowscale"
[const]
ROWS = 1
[[launch]]
entry = "rowscale"
grid = ["R // ROWS"]
block = [1]
args = ["X", "B", "Y", "R", "N"]
*/

// One row for each work-item.
__kernel void rowscale(__global const float *X, __global const float *B, __global float *Y, int R, int N)
{
    int first = get_global_id(0) * ROWS;

    for (int r = first; r < first + ROWS; r++)
        for (int j = 0; j < N; j++)
            Y[r * N + j] = 2.0f * X[r * N + j] + B[r];
}
