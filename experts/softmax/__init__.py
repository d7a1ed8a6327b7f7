"""Row softmax: Y[R,N] = softmax of each row of X."""
