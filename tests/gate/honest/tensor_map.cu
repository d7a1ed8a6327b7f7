/* klineage
format = 1
workload = "gemm"
[const]
W = 16
[require]
aligned_rows = "N % 4 == 0 and K % 4 == 0"
[maps]
a_map = { tensor = "A", box = ["W", "W"] }
b_map = { tensor = "B", box = ["W", "W"] }
[[launch]]
entry = "gemm"
grid = ["cdiv(N, W)", "cdiv(M, W)"]
block = ["W", "W"]
args = ["map:a_map", "map:b_map", "C", "M", "N", "K"]
*/

struct alignas(64) Map {
    unsigned long long opaque[16];
};

__device__ void bring(float *to, const Map *map, unsigned barrier, int col, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
                 "[%2];" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(map), "r"(barrier), "r"(col), "r"(row)
                 : "memory");
}

extern "C" __global__ void gemm(const __grid_constant__ Map a_map, const __grid_constant__ Map b_map, float *C, int M, int N, int K)
{
    __shared__ alignas(128) float a[W][W], b[W][W];
    __shared__ alignas(8) unsigned long long arrived;
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * W + x, row = blockIdx.y * W + y;
    unsigned barrier = (unsigned)__cvta_generic_to_shared(&arrived);
    bool first = x == 0 && y == 0;
    if (first)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(barrier) : "memory");
    __syncthreads();
    float sum = 0.0f;
    unsigned parity = 0;
    for (int k = 0; k < K; k += W, parity ^= 1) {
        if (first) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(2 * W * W * 4) : "memory");
            bring(&a[0][0], &a_map, barrier, k, blockIdx.y * W);
            bring(&b[0][0], &b_map, barrier, blockIdx.x * W, k);
        }
        unsigned ended;
        do {
            asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                         : "=r"(ended) : "r"(barrier), "r"(parity) : "memory");
        } while (!ended);
        for (int i = 0; i < W; i++)
            sum += a[y][i] * b[i][x];
        // Before the next tiles overwrite these.
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
