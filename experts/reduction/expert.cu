/* klineage
format = 1
workload = "reduction"
intents = ["vectorize-load", "split-accumulator", "unroll-loop", "shuffle-lanes", "coarsen-work", "split-reduction", "hint-restrict", "fix-work-group"]
[const]
THREADS = 512
PER_SM = 4
UNROLL = 4
[require]
one_block = "SMS * PER_SM <= 1024"
[workspace]
partial = { dtype = "f32", shape = ["SMS * PER_SM // WARP * WARP"] }
[[launch]]
entry = "partials"
grid = ["SMS * PER_SM // WARP * WARP"]
block = ["THREADS"]
args = ["x", "partial", "N"]
[[launch]]
entry = "total"
grid = [1]
block = ["SMS * PER_SM // WARP * WARP"]
args = ["partial", "y"]
*/

// Every block that fits the device at once adds its share; one block then has a thread for each of those sums. Blocks
// are as many whole warps as there are, so that the second launch needs no count: it is the block's size.

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, lanes);
    return value;
}

// The sum over a block of whole warps; only thread 0 has it.
__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float warps[32];

    value = warp_sum(value);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();

    if (threadIdx.x >= 32)
        return 0.0f;
    return warp_sum(threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.0f);
}

__device__ __forceinline__ float horizontal(float4 v)
{
    return (v.x + v.y) + (v.z + v.w);
}

extern "C" __global__ void __launch_bounds__(THREADS)
partials(const float *__restrict__ x, float *__restrict__ partial, int N)
{
    const float4 *vectors = reinterpret_cast<const float4 *>(x);
    const int count = N / 4, stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;

    // UNROLL loads in flight, each with a sum of its own.
    float sums[UNROLL] = {};
    for (; i + (UNROLL - 1) * stride < count; i += UNROLL * stride) {
        float4 loaded[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            loaded[u] = __ldcs(vectors + i + u * stride);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            sums[u] += horizontal(loaded[u]);
    }
    for (; i < count; i += stride)
        sums[0] += horizontal(__ldcs(vectors + i));

    // What is left of a vector.
    const int rest = 4 * count + threadIdx.x;
    if (blockIdx.x == 0 && rest < N)
        sums[0] += x[rest];

    float sum = 0.0f;
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        sum += sums[u];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(1024) total(const float *__restrict__ partial, float *__restrict__ y)
{
    const float sum = block_sum(partial[threadIdx.x]);
    if (threadIdx.x == 0)
        y[0] = sum;
}
