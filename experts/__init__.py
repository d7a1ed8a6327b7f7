"""What is optimized, and how it is judged: kernels, cases, references, verdicts, platforms."""
