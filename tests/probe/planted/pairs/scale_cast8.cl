/* klineage
format = 1
workload = "rowscale"
[[launch]]
entry = "rowscale"
grid = ["R"]
block = [1]
args = ["X", "B", "Y", "R", "N"]
*/

// Vectors through a cast pointer, which must be aligned; a tail element by element.
__kernel void rowscale(__global const float *X, __global const float *B, __global float *Y, int R, int N)
{
    int r = get_global_id(0);
    int whole = N / 8 * 8;

    for (int j = 0; j < whole; j += 8)
        *(__global float8 *)(Y + r * N + j) = 2.0f * *(__global const float8 *)(X + r * N + j) + B[r];
    for (int j = whole; j < N; j++)
        Y[r * N + j] = 2.0f * X[r * N + j] + B[r];
}
