"""Forward attention: O = softmax(Q K^T / sqrt(D)) V for each batch and head."""
