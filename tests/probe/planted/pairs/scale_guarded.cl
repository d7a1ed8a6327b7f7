/* klineage
format = 1
workload = "rowscale"
[[launch]]
entry = "rowscale"
grid = ["R"]
block = [1]
args = ["X", "B", "Y", "R", "N"]
*/

// A row is staged twice as far as it fits; the rest of it comes from where it is.
__kernel void rowscale(__global const float *X, __global const float *B, __global float *Y, int R, int N)
{
    __local float row[64];
    __local float twice[64];
    int r = get_global_id(0);

    for (int j = 0; j < N; j++)
        if (j < 64)
            row[j] = X[r * N + j];
    for (int j = 0; j < N; j++)
        if (j < 64)
            twice[j] = 2.0f * row[j];
    for (int j = 0; j < N; j++)
        Y[r * N + j] = (j < 64 ? twice[min(j, 63)] : 2.0f * X[r * N + j]) + B[r];
}
