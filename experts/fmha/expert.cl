/* klineage
format = 1
workload = "fmha"
intents = ["tile-registers", "vectorize-arithmetic", "vectorize-load", "vectorize-store", "unroll-loop", "stage-tile", "pack-operand", "block-loop", "fuse-loops", "fuse-initialization", "defer-division", "hoist-invariant", "bump-pointer", "rescale-base", "approximate-function", "fuse-multiply-add", "pad-array", "align-storage", "hint-restrict", "fix-work-group"]
options = ["-cl-std=CL1.2", "-cl-mad-enable"]
[const]
MR = 8
BM = 64
BN = 128
PAD = 16
D_MAX = 128
PACK = 64
[require]
whole_panels = "S % 16 == 0"
whole_vectors = "D % 16 == 0"
rows_fit = "D <= D_MAX"
whole_tiles = "BM % MR == 0"
whole_blocks = "BN % 16 == 0"
[workspace]
Kp = { dtype = "f32", shape = ["B", "H", "S", "D"] }
[[launch]]
entry = "pack_k"
grid = ["cdiv(S, PACK)", "B * H"]
block = ["PACK", 1]
args = ["K", "Kp", "S", "D"]
[[launch]]
entry = "fmha"
grid = ["cdiv(S, BM)", "B * H"]
block = [1, 1]
args = ["Q", "Kp", "V", "O", "S", "D"]
*/

// O = softmax(Q K^T / sqrt(D)) V, all [B, H, S, D] fp32. A work-item has BM rows of O
// and goes through the keys once, BN at a time (online softmax). Its group is one
// work-item: PoCL runs a work-group on one thread, and the vectors are written out.

enum { NR = 16 };  // columns of a tile of scores or of O: the lanes of a float16

// K[S,D] -> Kp[S/NR][D][NR] in each head: the scores of NR keys are the lanes of a
// vector, and the loop over d reads one stream. A work-item has one key.
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void pack_k(__global const float *restrict K, __global float *restrict Kp, int S, int D)
{
    int key = get_global_id(0);
    long head = (long)get_group_id(1) * S * D;

    if (key >= S)
        return;

    __global const float *src = K + head + key * D;
    __global float *dst = Kp + head + key / NR * NR * D + key % NR;
    for (int d = 0; d < D; d++)
        dst[d * NR] = src[d];
}

// 2^x for x <= 0, with a relative error below 3 * 2^-24; the library's exp2 is right to the
// last place and costs the whole kernel 6 to 10 %.
float16 exp2_16(float16 x)
{
    // Below the normal range the result stays at 2^-126: nothing beside the 1 of the maximum.
    x = x > -126.0f ? x : -126.0f;
    // 1.5 * 2^23 pushes the fraction out: the integer is in the low bits, and f in [-1/2, 1/2].
    float16 shifted = x + 12582912.0f;
    float16 f = x - (shifted - 12582912.0f);
    float16 p = 1.3218673e-3f;
    p = p * f + 9.6716979e-3f;
    p = p * f + 5.5508930e-2f;
    p = p * f + 2.4022238e-1f;
    p = p * f + 6.9314686e-1f;
    p = p * f + 1.0f;
    return as_float16(as_int16(p) + (as_int16(shifted) << 23));
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void fmha(__global const float *restrict Q, __global const float *restrict Kp,
                   __global const float *restrict V, __global float *restrict O, int S, int D)
{
    // The rows of Q and the weights of one block of keys. The rows are one cache line
    // longer than a power of two, so that those of a tile fall into different sets.
    __local float Qs[BM][D_MAX + PAD] __attribute__((aligned(64)));
    __local float P[BM][BN + PAD] __attribute__((aligned(64)));
    // Of each row so far: largest score, sum of weights; and what the last block scaled it by.
    __local float top[BM], sum[BM], shrink[BM];

    long head = (long)get_group_id(1) * S * D;
    int i0 = get_group_id(0) * BM;
    int rows = min(BM, S - i0);
    int staged = (rows + MR - 1) / MR * MR;

    // exp(x) = 2^(x log2 e); the factor goes into Q with the scale, once.
    float scale = M_LOG2E_F / sqrt((float)D);
    // Up to whole tiles: rows past the end repeat the last one, and are not stored.
    for (int i = 0; i < staged; i++) {
        __global const float *src = Q + head + min(i0 + i, S - 1) * D;
        // Through cast pointers, here and below: vload16 and vstore16 are calls in PoCL.
        for (int d = 0; d < D; d += NR)
            *(__local float16 *)&Qs[i][d] = *(__global const float16 *)(src + d) * scale;
        top[i] = -INFINITY;
        sum[i] = 0.0f;
    }

    for (int j0 = 0; j0 < S; j0 += BN) {
        int keys = min(BN, S - j0);

        // Scores. A panel of Kp (D x NR) stays in L1 while all tiles of its keys use it.
        for (int j = 0; j < keys; j += NR) {
            for (int i = 0; i < rows; i += MR) {
                __global const float *k = Kp + head + (j0 + j) * D;

                // 8 x float16 are enough independent sums to hide the latency of
                // multiply-add with AVX-512. AVX2 has registers for MR = 6.
                float16 acc[MR];
                #pragma unroll
                for (int r = 0; r < MR; r++)
                    acc[r] = 0.0f;

                #pragma unroll 4
                for (int d = 0; d < D; d++) {
                    float16 kd = *(__global const float16 *)k;
                    // a * b + c becomes one instruction; in PoCL fma() on a vector is a call.
                    #pragma unroll
                    for (int r = 0; r < MR; r++)
                        acc[r] += Qs[i + r][d] * kd;
                    k += NR;
                }

                #pragma unroll
                for (int r = 0; r < MR; r++)
                    *(__local float16 *)&P[i + r][j] = acc[r];
            }
        }

        // Weights, against the largest score so far: what came before shrinks with it.
        for (int i = 0; i < staged; i++) {
            float16 most = *(__local float16 *)P[i];
            for (int j = NR; j < keys; j += NR) {
                float16 s = *(__local float16 *)&P[i][j];
                most = most > s ? most : s;
            }
            float8 m8 = max(most.lo, most.hi);
            float4 m4 = max(m8.lo, m8.hi);
            float largest = max(max(max(m4.x, m4.y), max(m4.z, m4.w)), top[i]);

            float16 total = 0.0f;
            for (int j = 0; j < keys; j += NR) {
                float16 p = exp2_16(*(__local float16 *)&P[i][j] - largest);
                *(__local float16 *)&P[i][j] = p;
                total += p;
            }
            float8 t8 = total.lo + total.hi;
            float4 t4 = t8.lo + t8.hi;
            shrink[i] = native_exp2(top[i] - largest);
            sum[i] = sum[i] * shrink[i] + (t4.x + t4.y) + (t4.z + t4.w);
            top[i] = largest;
        }

        // O. NR columns of the block of V stay in L1 while all tiles use them.
        for (int d = 0; d < D; d += NR) {
            for (int i = 0; i < rows; i += MR) {
                __global const float *v = V + head + j0 * D + d;

                float16 acc[MR];
                #pragma unroll
                for (int r = 0; r < MR; r++)
                    acc[r] = 0.0f;

                #pragma unroll 4
                for (int j = 0; j < keys; j++) {
                    float16 vj = *(__global const float16 *)v;
                    #pragma unroll
                    for (int r = 0; r < MR; r++)
                        acc[r] += P[i + r][j] * vj;
                    v += D;
                }

                // The first block writes O, so that no pass has to clear it; the last one
                // divides by the sum, so that no weight has to be divided.
                #pragma unroll
                for (int r = 0; r < MR; r++) {
                    if (i + r < rows) {
                        __global float16 *o = (__global float16 *)(O + head + (i0 + i + r) * D + d);
                        if (j0 > 0)
                            acc[r] += *o * shrink[i + r];
                        if (j0 + keys == S)
                            acc[r] *= native_recip(sum[i + r]);
                        *o = acc[r];
                    }
                }
            }
        }
    }
}
