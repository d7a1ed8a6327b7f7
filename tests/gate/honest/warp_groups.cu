/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 32)", "M"]
block = [256]
args = ["A", "B", "C", "M", "N", "K"]
*/
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    int col = blockIdx.x * 32 + threadIdx.x / 8, row = blockIdx.y;
    float sum = 0.0f;
    if (col < N)
        for (int k = tile.thread_rank(); k < K; k += 8)
            sum += A[row * K + k] * B[k * N + col];
    for (int step = 4; step > 0; step /= 2)
        sum += tile.shfl_down(sum, step);
    if (tile.thread_rank() == 0 && col < N)
        C[row * N + col] = sum;
}
