/* klineage
format = 1
workload = "gemm"
[const]
W = 16
[[launch]]
entry = "gemm"
grid = ["up(cdiv(N, W), 2)", "cdiv(M, W)"]
block = ["W", "W"]
cluster = [2]
args = ["A", "B", "C", "M", "N", "K"]
*/
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Both blocks need the same rows of A: each brings every other tile of it.
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float a[W][W], b[2][W][W];
    cg::cluster_group pair = cg::this_cluster();
    unsigned rank = pair.block_rank();
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * W + x, row = blockIdx.y * W + y;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 2 * W) {
        int at = k + rank * W + x;
        a[y][x] = row < M && at < K ? A[row * K + at] : 0.0f;
        for (int half = 0; half < 2; half++) {
            int deep = k + half * W + y;
            b[half][y][x] = col < N && deep < K ? B[deep * N + col] : 0.0f;
        }
        pair.sync();
        for (int half = 0; half < 2; half++) {
            const float *theirs = pair.map_shared_rank(&a[0][0], half);
            for (int i = 0; i < W; i++)
                sum += theirs[y * W + i] * b[half][i][x];
        }
        pair.sync();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
