/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["N", "M"]
block = [32, 1]
args = ["A", "B", "C", "M", "N", "K"]
*/
// A work-group for each element: 32 strided partial sums, then a tree in local memory. Another order of additions, not another result.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    __local float part[32];
    int lane = get_local_id(0), col = get_group_id(0), row = get_group_id(1);
    float sum = 0.0f;
    for (int k = lane; k < K; k += 32)
        sum += A[row * K + k] * B[k * N + col];
    part[lane] = sum;
    for (int half_width = 16; half_width > 0; half_width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_width)
            part[lane] += part[lane + half_width];
    }
    if (lane == 0)
        C[row * N + col] = part[0];
}
