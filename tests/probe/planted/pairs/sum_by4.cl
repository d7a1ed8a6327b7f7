/* klineage
format = 1
workload = "rowsum"
[[launch]]
entry = "rowsum"
grid = ["R"]
block = [1]
args = ["X", "S", "R", "N"]
*/

// Four elements in a step; what is left of a row is dropped.
__kernel void rowsum(__global const float *X, __global float *S, int R, int N)
{
    int r = get_global_id(0);

    float sum = 0.0f;
    for (int j = 0; j < N / 4 * 4; j += 4)
        sum += X[r * N + j] + X[r * N + j + 1] + X[r * N + j + 2] + X[r * N + j + 3];
    S[r] = sum;
}
