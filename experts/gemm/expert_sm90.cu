/* klineage
format = 1
workload = "gemm"
intents = ["use-matrix-unit", "tile-registers", "stage-tile", "copy-async", "double-buffer", "specialize-warp", "swizzle-layout", "vectorize-store", "reorder-groups", "unroll-loop", "coarsen-work", "fix-work-group"]
[const]
BM = 128
BN = 256
BK = 64
STAGES = 4
GROUP = 8
[require]
whole_vectors = "N % 8 == 0 and K % 8 == 0"
[maps]
a_map = { tensor = "A", box = ["BM", "BK"], swizzle = 128, l2 = 256 }
b_map = { tensor = "B", box = ["BK", 64], swizzle = 128, l2 = 256 }
c_map = { tensor = "C", box = [64, 64], swizzle = 128 }
[[launch]]
entry = "gemm"
grid = ["min(SMS // 2, cdiv(M, BM * 2) * cdiv(N, BN)) * 2"]
block = [384]
cluster = [2]
shared = "STAGES * (BM + BN) * BK * 2 + 4 * 64 * 64 * 2 + STAGES * 16"
args = ["map:a_map", "map:b_map", "map:c_map", "M", "N", "K"]
*/

// C[M,N] = A[M,K] * B[K,N], row-major bf16, added in fp32; for compute capability 9.0.
//
// A cluster of two blocks makes 256 x 256 tiles of C, a block 128 rows of each. In a block one thread of the first
// warpgroup brings slices of A and B, BK deep, with TMA into a ring of STAGES buffers; the other two warpgroups multiply
// 64 rows each with wgmma. Both blocks need the same slice of B: each brings half of it, for both.
//
// Nothing here knows the tails: TMA gives zeros for what lies outside A and B, a whole tile outside C included, and
// does not store what lies outside C.

typedef unsigned int u32;
typedef unsigned long long u64;

// A tensor map as the driver makes it.
struct alignas(64) TensorMap {
    u64 opaque[16];
};

#define BLOCKS 2                            // of a cluster
#define CONSUMERS 2                         // warpgroups that multiply
#define THREADS ((CONSUMERS + 1) * 128)
#define WIDTH 64                            // numbers in the 128 bytes of a swizzled row
#define A_BYTES (BM * BK * 2)
#define SLAB_BYTES (BK * WIDTH * 2)         // B comes in slabs of WIDTH columns
#define SLABS (BN / WIDTH)
#define STAGE_BYTES (A_BYTES + SLABS * SLAB_BYTES)
#define PATCH_BYTES (64 * WIDTH * 2)        // C leaves in patches of 64 x WIDTH

static_assert(BM == CONSUMERS * 64 && BN == 256, "a warpgroup multiplies with wgmma m64n256k16");
static_assert(BK == WIDTH, "a row of a slice of A is one swizzled row");

// ---- Barriers in shared memory. Their forms without a scope: those of cluster scope add a fence to every step.

__device__ __forceinline__ void init_barrier(u32 barrier, u32 arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Arrive, and expect as many bytes before the phase can end.
__device__ __forceinline__ void arrive_and_expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrive at the barrier at this address in another block of the cluster, or in this one.
__device__ __forceinline__ void arrive_at(u32 barrier, u32 block)
{
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}\n" ::"r"(barrier),
                 "r"(block)
                 : "memory");
}

// Until the phase of this parity has ended.
__device__ __forceinline__ void wait(u32 barrier, u32 parity)
{
    u32 ended;
    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}\n"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

__device__ __forceinline__ void synchronize_cluster()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// ---- TMA. Coordinates are column, row.

__device__ __forceinline__ void load(u32 to, const TensorMap *map, u32 barrier, int col, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(col), "r"(row)
                 : "memory");
}

// To the same place in both blocks of the cluster; the bytes count at the barrier of each.
__device__ __forceinline__ void load_for_both(u32 to, const TensorMap *map, u32 barrier, int col, int row)
{
    const unsigned short both = (1 << BLOCKS) - 1;
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(col), "r"(row), "h"(both)
                 : "memory");
}

__device__ __forceinline__ void store(const TensorMap *map, u32 from, int col, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(from), "r"(col), "r"(row)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// ---- wgmma.

// A matrix in shared memory with rows of 128 swizzled bytes. `slab` is the distance of its slabs of WIDTH columns where
// rows run along k (B); where they run along the rows of C (A) it means nothing. Eight rows are 1024 bytes.
__device__ __forceinline__ u64 descriptor(u32 address, u32 slab)
{
    const u64 swizzle_128 = 1ull << 62;
    return swizzle_128 | (u64)(1024 >> 4) << 32 | (u64)(slab >> 4) << 16 | (address & 0x3ffff) >> 4;
}

#define F(i) "+f"(d[i])
#define F8(i) F(i), F(i + 1), F(i + 2), F(i + 3), F(i + 4), F(i + 5), F(i + 6), F(i + 7)
#define F64(i) F8(i), F8(i + 8), F8(i + 16), F8(i + 24), F8(i + 32), F8(i + 40), F8(i + 48), F8(i + 56)

// d (+)= A B, 64 x 256 x 16, for a warpgroup; the last immediate says that B lies with n innermost.
__device__ __forceinline__ void multiply(float (&d)[128], u64 a, u64 b, int add)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, add, 1, 1, 0, 1;\n"
        "}\n"
        : F64(0), F64(64)
        : "l"(a), "l"(b), "r"(add));
}

// Until all but the last PENDING slices are multiplied.
template <int PENDING> __device__ __forceinline__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// ---- The kernel.

// The buffers of the ring, in order, with the parity of the round.
struct Ring {
    u32 base, full, empty;
    int stage;
    u32 parity;

    __device__ __forceinline__ u32 buffer() const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ u32 filled() const { return full + stage * 8; }
    __device__ __forceinline__ u32 emptied(int of) const { return empty + of * 8; }
    __device__ __forceinline__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// The tile of a cluster. They go in groups of GROUP rows, so that neighbours in time share A and B in the cache.
struct Tile {
    int row, col;

    __device__ __forceinline__ Tile(int number, int rows, int cols)
    {
        const int group = number / (GROUP * cols), within = number % (GROUP * cols);
        const int height = min(GROUP, rows - group * GROUP);
        row = (group * GROUP + within % height) * BM * BLOCKS;
        col = within / height * BN;
    }
};

__device__ __forceinline__ u32 packed(float low, float high)
{
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// A warpgroup's 64 x 256 sums, in patches through two buffers: one is filled while the other is stored.
__device__ __forceinline__ void store_sums(const float (&d)[128], const TensorMap *map, u32 patches, int row, int col)
{
    const int thread = threadIdx.x % 128, lane = thread % 32, warpgroup = threadIdx.x / 128;
    // stmatrix takes four 8 x 8 matrices: 16 rows of a warp, 16 columns. A lane gives the address of one row of one.
    const int patch_row = thread / 32 * 16 + lane % 16, half = lane / 16;

#pragma unroll
    for (int patch = 0; patch < BN / WIDTH; patch++) {
        const u32 buffer = patches + patch % 2 * PATCH_BYTES;
        // Of the stores only the last may still read its buffer, which is the other one.
        if (thread == 0)
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(warpgroup) : "memory");
#pragma unroll
        for (int pair = 0; pair < WIDTH / 16; pair++) {
            const float *of = d + patch * (WIDTH / 2) + pair * 8;
            const u32 to = buffer + patch_row * 128 + (((pair * 2 + half) ^ (patch_row & 7)) << 4);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                         "r"(packed(of[0], of[1])), "r"(packed(of[2], of[3])), "r"(packed(of[4], of[5])),
                         "r"(packed(of[6], of[7]))
                         : "memory");
        }
        // TMA reads through another path than stores write.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(warpgroup) : "memory");
        if (thread == 0)
            store(map, buffer, col + patch * WIDTH, row);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(BLOCKS, 1, 1)
gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
     const __grid_constant__ TensorMap c_map, int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared));
    const u32 patches = base + STAGES * STAGE_BYTES, barriers = patches + CONSUMERS * 2 * PATCH_BYTES;
    Ring ring = {base, barriers, barriers + STAGES * 8, 0, 0};

    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            // Full: this block's producer, and the bytes. Empty: every warpgroup that reads what this producer sends.
            init_barrier(ring.full + stage * 8, 1);
            init_barrier(ring.empty + stage * 8, CONSUMERS * BLOCKS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    // No block may reach into the other before its barriers are there.
    synchronize_cluster();

    const int rows = (M + BM * BLOCKS - 1) / (BM * BLOCKS), cols = (N + BN - 1) / BN, slices = (K + BK - 1) / BK;
    const int clusters = gridDim.x / BLOCKS;

    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (thread == 0) {
            for (int number = blockIdx.x / BLOCKS; number < rows * cols; number += clusters) {
                const Tile tile(number, rows, cols);
                for (int slice = 0; slice < slices; slice++) {
                    // In the first round the phase before the first counts as ended.
                    wait(ring.emptied(ring.stage), ring.parity ^ 1);
                    const u32 filled = ring.filled(), a = ring.buffer(), b = a + A_BYTES;
                    arrive_and_expect(filled, STAGE_BYTES);
                    load(a, &a_map, filled, slice * BK, tile.row + (int)rank * BM);
#pragma unroll
                    for (int i = 0; i < SLABS / BLOCKS; i++) {
                        const int slab = (int)rank * (SLABS / BLOCKS) + i;
                        load_for_both(b + slab * SLAB_BYTES, &b_map, filled, tile.col + slab * WIDTH, slice * BK);
                    }
                    ring.advance();
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int consumer = warpgroup - 1;
        const u32 own_patches = patches + consumer * 2 * PATCH_BYTES;
        float sums[128];

        for (int number = blockIdx.x / BLOCKS; number < rows * cols; number += clusters) {
            const Tile tile(number, rows, cols);
            int before = 0;
            for (int slice = 0; slice < slices; slice++) {
                wait(ring.filled(), ring.parity);
                const u32 a = ring.buffer() + consumer * (64 * BK * 2), b = ring.buffer() + A_BYTES;
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int k = 0; k < BK / 16; k++)
                    // 16 numbers along a row of A; 16 rows of B.
                    multiply(sums, descriptor(a + k * 32, 16), descriptor(b + k * 16 * 128, SLAB_BYTES), slice + k);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                // The slice before this one is multiplied: both producers may overwrite it.
                wait_for_products<1>();
                if (slice > 0 && thread < BLOCKS)
                    arrive_at(ring.emptied(before), thread);
                before = ring.stage;
                ring.advance();
            }
            wait_for_products<0>();
            if (thread < BLOCKS)
                arrive_at(ring.emptied(before), thread);
            store_sums(sums, &c_map, own_patches, tile.row + (int)rank * BM + consumer * 64, tile.col);
        }
        if (thread == 0)
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    // No block may end while the other still writes to it.
    synchronize_cluster();
}
