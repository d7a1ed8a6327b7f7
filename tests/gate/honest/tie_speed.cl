/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
// naive.cl with other names: correct, and no faster. A tie is not a fault.
__kernel void product(__global const float *left, __global const float *right, __global float *out, int rows, int cols, int depth)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (y >= rows || x >= cols)
        return;
    float total = 0.0f;
    for (int i = 0; i < depth; i++)
        total += left[y * depth + i] * right[i * cols + x];
    out[y * cols + x] = total;
}
