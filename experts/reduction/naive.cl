/* klineage
format = 1
workload = "reduction"
intents = []
[const]
CHUNK = 1024
W = 64
[workspace]
partial = { dtype = "f32", shape = ["cdiv(N, CHUNK)"] }
[[launch]]
entry = "partials"
grid = ["cdiv(N, CHUNK * W)"]
block = ["W"]
args = ["x", "partial", "N"]
[[launch]]
entry = "total"
grid = [1]
block = [1]
args = ["partial", "y", "N"]
*/

// One work-item adds every stride-th element, CHUNK of them at most.
__kernel void partials(__global const float *x, __global float *partial, int N)
{
    int lane = get_global_id(0);
    int stride = (N + CHUNK - 1) / CHUNK;

    // The grid is rounded up to whole work-groups.
    if (lane >= stride)
        return;

    float sum = 0.0f;
    for (int i = lane; i < N; i += stride)
        sum += x[i];

    partial[lane] = sum;
}

__kernel void total(__global const float *partial, __global float *y, int N)
{
    int lanes = (N + CHUNK - 1) / CHUNK;

    float sum = 0.0f;
    for (int i = 0; i < lanes; i++)
        sum += partial[i];

    y[0] = sum;
}
