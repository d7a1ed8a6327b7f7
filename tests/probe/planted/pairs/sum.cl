/* klineage
format = 1
workload = "rowsum"
[[launch]]
entry = "rowsum"
grid = ["R"]
block = [1]
args = ["X", "S", "R", "N"]
*/

// One work-item for each row.
__kernel void rowsum(__global const float *X, __global float *S, int R, int N)
{
    int r = get_global_id(0);

    float sum = 0.0f;
    for (int j = 0; j < N; j++)
        sum += X[r * N + j];
    S[r] = sum;
}
