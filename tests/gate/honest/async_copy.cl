/* klineage
format = 1
workload = "gemm"
[const]
CHUNK = 64
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 32)", "M"]
block = [32, 1]
args = ["A", "B", "C", "M", "N", "K"]
*/
// A row of A comes in chunks by async_work_group_copy; every work-item reaches every barrier, idle columns too.
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    __local float a[CHUNK];
    int col = get_global_id(0), row = get_global_id(1);
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += CHUNK) {
        int count = min(CHUNK, K - k0);
        event_t copied = async_work_group_copy(a, A + row * K + k0, count, 0);
        wait_group_events(1, &copied);
        for (int k = 0; k < count && col < N; k++)
            sum += a[k] * B[(k0 + k) * N + col];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (col < N)
        C[row * N + col] = sum;
}
