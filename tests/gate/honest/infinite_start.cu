/* klineage
format = 1
workload = "softmax"
[[launch]]
entry = "softmax"
grid = ["R"]
block = [128]
args = ["X", "Y", "R", "N"]
*/
extern "C" __global__ void softmax(const float *X, float *Y, int R, int N)
{
    __shared__ float held[128];
    int lane = threadIdx.x, row = blockIdx.x;
    const float *x = X + (long long)row * N;
    float largest = -1.0f / 0.0f;
    for (int j = lane; j < N; j += 128)
        largest = fmaxf(largest, x[j]);
    held[lane] = largest;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (lane < step)
            held[lane] = fmaxf(held[lane], held[lane + step]);
        __syncthreads();
    }
    largest = held[0];
    __syncthreads();
    float sum = 0.0f;
    for (int j = lane; j < N; j += 128)
        sum += expf(x[j] - largest);
    held[lane] = sum;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (lane < step)
            held[lane] += held[lane + step];
        __syncthreads();
    }
    for (int j = lane; j < N; j += 128)
        Y[(long long)row * N + j] = expf(x[j] - largest) / held[0];
}
