/* klineage
format = 1
workload = "rowsum"
[[launch]]
entry = "rowsum"
grid = ["R"]
block = [1]
args = ["X", "S", "R", "N"]
*/

// Sixteen elements of a row at a time, without a tail.
__kernel void rowsum(__global const float *X, __global float *S, int R, int N)
{
    int r = get_global_id(0);

    float16 sums = 0.0f;
    for (int j = 0; j < N; j += 16)
        sums += vload16(0, X + r * N + j);
    float8 eight = sums.lo + sums.hi;
    float4 four = eight.lo + eight.hi;
    S[r] = four.x + four.y + four.z + four.w;
}
