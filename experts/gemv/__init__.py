"""Matrix times vector, row-major: y[M] = A[M,K] x[K]."""
