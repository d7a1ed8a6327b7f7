"""Matrix multiplication, row-major: C[M,N] = A[M,K] B[K,N]."""
