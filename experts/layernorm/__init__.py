"""Layer normalization of rows: Y[R,N] = (X - mean) / sqrt(variance + eps) G[N] + B[N]."""
