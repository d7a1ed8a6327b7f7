"""Writes kernels from kernels: one optimization out, or in. So far by rules (rules/)."""
