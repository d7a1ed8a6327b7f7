/* klineage
format = 1
workload = "gemv"
intents = ["vectorize-arithmetic", "split-accumulator", "unroll-loop", "coarsen-work", "fuse-multiply-add", "hint-restrict", "fix-work-group"]
options = ["-cl-std=CL1.2", "-cl-mad-enable"]
[const]
ROWS = 32
[require]
whole_vectors = "K % 16 == 0"
[[launch]]
entry = "gemv"
grid = ["cdiv(M, ROWS)"]
block = [1]
args = ["A", "x", "y", "M", "K"]
*/

// y[M] = A[M,K] * x[K], A row-major fp32. A work-item has ROWS rows, one after the other: A
// is one stream, and x stays in L1. Its group is one work-item: PoCL runs a work-group on one
// thread, and the vectors are written out.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void gemv(__global const float *restrict A, __global const float *restrict x,
                   __global float *restrict y, int M, int K)
{
    int first = get_group_id(0) * ROWS;
    int last = min(first + ROWS, M);

    for (int row = first; row < last; row++) {
        __global const float *a = A + row * K;

        // A sum in each lane: one sum alone would wait for the latency of every addition, and
        // the compiler may not split it.
        float sum = 0.0f;
        float16 part = 0.0f;
        #pragma unroll 4
        for (int k = 0; k < K; k += 16)
            // Through cast pointers: vload16 is a call in PoCL.
            part += *(__global const float16 *)(a + k) * *(__global const float16 *)(x + k);

        sum += (((part.s0 + part.s8) + (part.s4 + part.sc)) + ((part.s2 + part.sa) + (part.s6 + part.se))) +
            (((part.s1 + part.s9) + (part.s5 + part.sd)) + ((part.s3 + part.sb) + (part.s7 + part.sf)));
        y[row] = sum;
    }
}
