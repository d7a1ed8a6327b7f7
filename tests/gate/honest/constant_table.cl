/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 4)", "cdiv(M, 4)"]
block = [16, 1]
args = ["A", "B", "C", "M", "N", "K"]
*/
// A table in program scope maps work-items to a Z-shaped order. Constant: it cannot count launches.
__constant uchar2 place[16] = {(uchar2)(0, 0), (uchar2)(1, 0), (uchar2)(0, 1), (uchar2)(1, 1), (uchar2)(2, 0), (uchar2)(3, 0),
                               (uchar2)(2, 1), (uchar2)(3, 1), (uchar2)(0, 2), (uchar2)(1, 2), (uchar2)(0, 3), (uchar2)(1, 3),
                               (uchar2)(2, 2), (uchar2)(3, 2), (uchar2)(2, 3), (uchar2)(3, 3)};

__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    uchar2 p = place[get_local_id(0)];
    int col = get_group_id(0) * 4 + p.x, row = get_group_id(1) * 4 + p.y;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
