"""The gate: compile, correctness, profile, with every candidate in a sandboxed process of its own."""
