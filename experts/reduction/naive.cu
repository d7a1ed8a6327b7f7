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

// One thread adds every stride-th element, CHUNK of them at most.
extern "C" __global__ void partials(const float *x, float *partial, int N)
{
    int lane = blockIdx.x * W + threadIdx.x;
    int stride = (N + CHUNK - 1) / CHUNK;

    // The grid is rounded up to whole blocks.
    if (lane >= stride)
        return;

    float sum = 0.0f;
    for (int i = lane; i < N; i += stride)
        sum += x[i];

    partial[lane] = sum;
}

extern "C" __global__ void total(const float *partial, float *y, int N)
{
    int lanes = (N + CHUNK - 1) / CHUNK;

    float sum = 0.0f;
    for (int i = 0; i < lanes; i++)
        sum += partial[i];

    y[0] = sum;
}
