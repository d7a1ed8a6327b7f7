/* klineage
format = 1
workload = "gemm"
intents = ["use-matrix-unit", "tile-registers", "stage-tile", "copy-async", "double-buffer", "swizzle-layout", "vectorize-load", "vectorize-store", "reorder-groups", "unroll-loop", "coarsen-work", "hint-restrict", "fix-work-group"]
[const]
BM = 128
BN = 128
BK = 32
STAGES = 4
WARPS_M = 2
WARPS_N = 4
GROUP = 8
[require]
whole_vectors = "N % 8 == 0 and K % 8 == 0"
[[launch]]
entry = "gemm"
grid = ["cdiv(M, BM) * cdiv(N, BN)"]
block = ["WARPS_M * WARPS_N * 32"]
shared = "STAGES * (BM + BN) * BK * 2"
args = ["A", "B", "C", "M", "N", "K"]
*/

// C[M,N] = A[M,K] * B[K,N], row-major bf16, added in fp32.
//
// A block makes a BM x BN tile of C. Slices of A and B, BK deep, come through a ring of STAGES buffers with cp.async,
// in vectors of 8 numbers; ldmatrix turns them into the fragments of mma m16n8k16. What lies outside A or B arrives as
// zeros, so that tails need no code but the guarded store.

#include <cuda_bf16.h>

typedef unsigned int u32;

#define THREADS (WARPS_M * WARPS_N * 32)
#define VECTOR 8                              // numbers in 16 bytes
#define A_BYTES (BM * BK * 2)
#define STAGE_BYTES ((BM + BN) * BK * 2)
#define WM (BM / WARPS_M)                     // the tile of a warp
#define WN (BN / WARPS_N)
#define MT (WM / 16)                          // fragments of a warp
#define NT (WN / 8)

static_assert(BK == 32 && BN % 64 == 0, "the swizzles below are for rows of 64 bytes and of 128 bytes or more");
static_assert(BM * BK % (THREADS * VECTOR) == 0 && BN * BK % (THREADS * VECTOR) == 0, "whole rounds of copies");
static_assert(WM % 16 == 0 && WN % 16 == 0, "whole fragments");

// Where a vector lies in a slice, in bytes. Eight rows of one column of vectors fall into different banks.
__device__ __forceinline__ u32 place_a(int row, int vector)
{
    return row * (BK * 2) + ((vector ^ (row >> 1 & 3)) << 4);
}

__device__ __forceinline__ u32 place_b(int row, int vector)
{
    return row * (BN * 2) + ((vector ^ (row & 7)) << 4);
}

// 16 bytes to shared memory, or zeros where they lie outside.
__device__ __forceinline__ void copy(u32 to, const __nv_bfloat16 *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

__device__ __forceinline__ void load_fragment(u32 (&to)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void load_fragment_transposed(u32 (&to)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One slice of A and of B, from column k of A on.
__device__ __forceinline__ void copy_slice(
    u32 stage, const __nv_bfloat16 *A, const __nv_bfloat16 *B, int top, int left, int k, int M, int N, int K)
{
#pragma unroll
    for (int i = 0; i < BM * BK / (THREADS * VECTOR); i++) {
        const int at = i * THREADS + threadIdx.x, row = at / (BK / VECTOR), vector = at % (BK / VECTOR);
        const bool inside = top + row < M && k + vector * VECTOR < K;
        const long long from = (long long)(top + row) * K + k + vector * VECTOR;
        copy(stage + place_a(row, vector), inside ? A + from : A, inside);
    }
#pragma unroll
    for (int i = 0; i < BN * BK / (THREADS * VECTOR); i++) {
        const int at = i * THREADS + threadIdx.x, row = at / (BN / VECTOR), vector = at % (BN / VECTOR);
        const bool inside = k + row < K && left + vector * VECTOR < N;
        const long long from = (long long)(k + row) * N + left + vector * VECTOR;
        copy(stage + A_BYTES + place_b(row, vector), inside ? B + from : B, inside);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const __nv_bfloat16 *__restrict__ A, const __nv_bfloat16 *__restrict__ B, __nv_bfloat16 *__restrict__ C, int M,
     int N, int K)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const u32 ring = static_cast<u32>(__cvta_generic_to_shared(shared));
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / WARPS_N * WM, warp_col = warp % WARPS_N * WN;

    // Tiles in groups of GROUP rows: neighbours in time share rows of A and columns of B in the cache.
    const int rows = (M + BM - 1) / BM, cols = (N + BN - 1) / BN;
    const int group = blockIdx.x / (GROUP * cols), within = blockIdx.x % (GROUP * cols);
    const int height = min(GROUP, rows - group * GROUP);
    const int top = (group * GROUP + within % height) * BM, left = within / height * BN;

    float sums[MT][NT][4] = {};
    const int slices = (K + BK - 1) / BK;

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < slices)
            copy_slice(ring + s * STAGE_BYTES, A, B, top, left, s * BK, M, N, K);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

    for (int s = 0; s < slices; s++) {
        // Slice s has come for this thread, then for all; and all have read what the next copy overwrites.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = s + STAGES - 1;
        if (next < slices)
            copy_slice(ring + next % STAGES * STAGE_BYTES, A, B, top, left, next * BK, M, N, K);
        // A group even if empty: the wait above counts groups.
        asm volatile("cp.async.commit_group;" ::: "memory");

        const u32 a_slice = ring + s % STAGES * STAGE_BYTES, b_slice = a_slice + A_BYTES;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            u32 a[MT][4], b[NT / 2][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
                load_fragment(a[m], a_slice + place_a(warp_row + m * 16 + lane % 16, k / VECTOR + lane / 16));
#pragma unroll
            for (int n = 0; n < NT / 2; n++)
                load_fragment_transposed(
                    b[n], b_slice + place_b(k + lane % 16, warp_col / VECTOR + n * 2 + lane / 16));
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < NT; n++)
                    multiply_add(sums[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        }
    }

    // A thread has two neighbours in a row, and two eight rows below.
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = top + warp_row + m * 16 + half * 8 + lane / 4;
                const int col = left + warp_col + n * 8 + lane % 4 * 2;
                if (row < M && col < N)
                    *reinterpret_cast<__nv_bfloat162 *>(C + (long long)row * N + col) =
                        __floats2bfloat162_rn(sums[m][n][half * 2], sums[m][n][half * 2 + 1]);
            }
}
