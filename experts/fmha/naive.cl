/* klineage
format = 1
workload = "fmha"
intents = []
[const]
W = 32
[[launch]]
entry = "fmha"
grid = ["cdiv(S, W)", "B * H"]
block = ["W", 1]
args = ["Q", "K", "V", "O", "S", "D"]
*/

// O = softmax(Q K^T / sqrt(D)) V, all [B, H, S, D] fp32: one work-item for each row of O.

float score(__global const float *q, __global const float *k, int D)
{
    float sum = 0.0f;
    for (int d = 0; d < D; d++)
        sum += q[d] * k[d];
    return sum / sqrt((float)D);
}

__kernel void fmha(__global const float *Q, __global const float *K, __global const float *V, __global float *O,
                   int S, int D)
{
    int row = get_global_id(0);
    long head = (long)get_global_id(1) * S * D;

    // The grid is rounded up to whole work-groups.
    if (row >= S)
        return;

    __global const float *q = Q + head + row * D;
    __global float *o = O + head + row * D;

    // Large scores overflow exp, unless the largest is subtracted.
    float largest = -INFINITY;
    for (int j = 0; j < S; j++)
        largest = fmax(largest, score(q, K + head + j * D, D));

    float sum = 0.0f;
    for (int j = 0; j < S; j++)
        sum += exp(score(q, K + head + j * D, D) - largest);

    for (int d = 0; d < D; d++)
        o[d] = 0.0f;
    for (int j = 0; j < S; j++) {
        float p = exp(score(q, K + head + j * D, D) - largest) / sum;
        for (int d = 0; d < D; d++)
            o[d] += p * V[head + j * D + d];
    }
}
