/* klineage
format = 1
workload = "rowscale"
[[launch]]
entry = "rowscale"
grid = ["R"]
block = [1]
args = ["X", "B", "Y", "R", "N"]
*/

// Four elements of a row at a time, without a tail.
__kernel void rowscale(__global const float *X, __global const float *B, __global float *Y, int R, int N)
{
    int r = get_global_id(0);

    for (int j = 0; j < N; j += 4)
        vstore4(2.0f * vload4(0, X + r * N + j) + B[r], 0, Y + r * N + j);
}
