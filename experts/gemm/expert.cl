/* klineage
format = 1
workload = "gemm"
intents = ["tile-registers", "vectorize-arithmetic", "vectorize-copy", "unroll-loop", "stage-tile", "pack-operand", "block-loop", "coarsen-work", "fuse-initialization", "bump-pointer", "hoist-invariant", "fuse-multiply-add", "hint-restrict", "fix-work-group", "align-storage"]
options = ["-cl-std=CL1.2", "-cl-mad-enable"]
[const]
MR = 6
NR = 16
MT = 11
NT = 16
KC = 256
PK = 16
[require]
whole_panels = "N % NR == 0"
whole_vectors = "K % NR == 0"
whole_steps = "KC % NR == 0"
[workspace]
Bp = { dtype = "f32", shape = ["N", "K"] }
[[launch]]
entry = "pack_b"
grid = ["cdiv(K, PK)"]
block = [1]
args = ["B", "Bp", "N", "K"]
[[launch]]
entry = "gemm"
grid = ["cdiv(M, MR * MT)", "cdiv(N, NR * NT)"]
block = [1, 1]
args = ["A", "Bp", "C", "M", "N", "K"]
*/

// C[M,N] = A[M,K] * B[K,N], row-major fp32. C is computed in tiles of MR x NR, and
// a work-item has a block of MT x NT tiles. Work-groups are one work-item: PoCL runs
// a work-group on one thread, and the vectors are written out. NR is the lanes of a
// float16, and goes with it.

// B[K,N] -> Bp[N/NR][K][NR]. In a panel of NR columns the inner loop of gemm reads
// one stream; in B itself the steps of k are N apart, and for N a power of two they
// fall into a few cache sets. A work-item packs PK rows.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pack_b(__global const float *restrict B, __global float *restrict Bp, int N, int K)
{
    int first = get_group_id(0) * PK;
    int last = min(first + PK, K);

    for (int k = first; k < last; k++) {
        __global const float *src = B + k * N;
        __global float *dst = Bp + k * NR;
        // Through a cast pointer, here and below: vload16 and vstore16 are calls in PoCL.
        for (int j = 0; j < N; j += NR)
            *(__global float16 *)(dst + j * K) = *(__global const float16 *)(src + j);
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void gemm(__global const float *restrict A, __global const float *restrict Bp,
                   __global float *restrict C, int M, int N, int K)
{
    // The block of A in use, as dense rows of a length that the compiler knows: the
    // MR rows of a tile are constant offsets from one pointer.
    __local float As[MR * MT * KC] __attribute__((aligned(64)));

    // MT = 11 gives 66 rows: 128, 256, 512 and 1024 rows then make an even number of
    // nearly full blocks for an even number of threads.
    int i0 = get_group_id(0) * (MR * MT);
    int j0 = get_group_id(1) * (NR * NT);
    int rows = min(MR * MT, M - i0);
    int cols = min(NR * NT, N - j0);
    int staged = (rows + MR - 1) / MR * MR;

    // KC steps of k at a time: a panel of B (KC x NR) stays in L1 while all tiles of
    // its columns use it, and As stays in L2.
    for (int k0 = 0; k0 < K; k0 += KC) {
        int kc = min(KC, K - k0);

        // Up to whole tiles: rows past the end repeat the last one, and are not stored.
        for (int i = 0; i < staged; i++) {
            __global const float *src = A + min(i0 + i, M - 1) * K + k0;
            __local float *dst = As + i * KC;
            for (int k = 0; k < kc; k += NR)
                *(__local float16 *)(dst + k) = *(__global const float16 *)(src + k);
        }

        for (int j = 0; j < cols; j += NR) {
            __global const float *panel = Bp + (j0 + j) * K + k0 * NR;

            for (int i = 0; i < rows; i += MR) {
                __local const float *a = As + i * KC;
                __global const float *b = panel;

                // 6 x float16 fill 12 of AVX2's 16 registers (a row of B and an element
                // of A need three), and are enough independent sums to hide the latency
                // of multiply-add. With AVX-512's 32 registers MR = 12 does the same.
                float16 acc[MR];
                for (int r = 0; r < MR; r++)
                    acc[r] = 0.0f;

                #pragma unroll 4
                for (int k = 0; k < kc; k++) {
                    float16 bk = *(__global const float16 *)b;
                    // a * b + c becomes one instruction; in PoCL fma() on a vector is a call.
                    #pragma unroll
                    for (int r = 0; r < MR; r++)
                        acc[r] += a[r * KC + k] * bk;
                    b += NR;
                }

                // The first block of k writes C, so that no pass has to clear it.
                __global float *c = C + (i0 + i) * N + j0 + j;
                for (int r = 0; r < MR; r++) {
                    if (i + r < rows) {
                        __global float16 *row = (__global float16 *)(c + r * N);
                        if (k0 == 0)
                            *row = acc[r];
                        else
                            *row += acc[r];
                    }
                }
            }
        }
    }
}
