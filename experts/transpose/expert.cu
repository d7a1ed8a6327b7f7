/* klineage
format = 1
workload = "transpose"
intents = ["stage-tile", "vectorize-load", "vectorize-store", "pad-array", "coarsen-work", "unroll-loop", "hint-restrict", "fix-work-group"]
[const]
TILE = 64
PAD = 1
THREADS = 256
[require]
whole_vectors = "M % 4 == 0 and N % 4 == 0"
[[launch]]
entry = "transpose"
grid = ["cdiv(N, TILE)", "cdiv(M, TILE)"]
block = ["THREADS"]
args = ["A", "B", "M", "N"]
*/

// B[N,M] = A[M,N] transposed, fp32. A block turns one tile in shared memory, so that both sides move whole vectors
// along rows. The padded row spreads a column over the banks.
#define ACROSS (TILE / 4)
#define STEP (THREADS / ACROSS)

extern "C" __global__ void __launch_bounds__(THREADS)
transpose(const float *__restrict__ A, float *__restrict__ B, int M, int N)
{
    __shared__ float tile[TILE][TILE + PAD];
    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    const int along = threadIdx.x % ACROSS * 4, first = threadIdx.x / ACROSS;

    float4 loaded[TILE / STEP];
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
        const int row = top + first + i * STEP, col = left + along;
        if (row < M && col < N)
            loaded[i] = __ldcs(reinterpret_cast<const float4 *>(A + (long long)row * N + col));
    }
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
        float *to = &tile[first + i * STEP][along];
        to[0] = loaded[i].x;
        to[1] = loaded[i].y;
        to[2] = loaded[i].z;
        to[3] = loaded[i].w;
    }
    __syncthreads();

#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
        const int from = first + i * STEP;
        const int row = left + from, col = top + along;
        // Rows and columns outside A are not written, so that what the tile holds there does not matter.
        if (row < N && col < M) {
            const float4 turned = make_float4(
                tile[along][from], tile[along + 1][from], tile[along + 2][from], tile[along + 3][from]);
            __stcs(reinterpret_cast<float4 *>(B + (long long)row * M + col), turned);
        }
    }
}
