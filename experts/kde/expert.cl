/* klineage
format = 1
workload = "kde"
intents = ["vectorize-arithmetic", "split-accumulator", "unroll-loop", "coarsen-work", "fuse-multiply-add", "hint-restrict", "fix-work-group"]
options = ["-cl-std=CL1.2", "-cl-mad-enable"]
[const]
ROWS = 32
[require]
whole_vectors = "N % 16 == 0"
[[launch]]
entry = "kde"
grid = ["cdiv(M, ROWS)"]
block = [1]
args = ["q", "x", "y", "M", "N"]
*/

// y[M] = sum over x[N] of exp(-(q - x)^2 / 2), fp32. A work-item has ROWS rows, one after the
// other, and x stays in L1. Its group is one work-item: PoCL runs a work-group on one thread,
// and the vectors are written out.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void kde(__global const float *restrict q, __global const float *restrict x,
                  __global float *restrict y, int M, int N)
{
    int first = get_group_id(0) * ROWS;
    int last = min(first + ROWS, M);

    for (int row = first; row < last; row++) {
        float at = q[row];

        // A sum in each lane, so that exp takes a vector: of one sum, the compiler keeps the order
        // and calls exp element by element. Unrolled, one exp starts while another is in flight.
        float sum = 0.0f;
        float16 part = 0.0f;
        #pragma unroll 4
        for (int j = 0; j < N; j += 16)
            // Through a cast pointer: vload16 is a call in PoCL.
            part += exp(-0.5f * (at - *(__global const float16 *)(x + j)) * (at - *(__global const float16 *)(x + j)));

        sum += (((part.s0 + part.s8) + (part.s4 + part.sc)) + ((part.s2 + part.sa) + (part.s6 + part.se))) +
            (((part.s1 + part.s9) + (part.s5 + part.sd)) + ((part.s3 + part.sb) + (part.s7 + part.sf)));
        y[row] = sum;
    }
}
