"""Boundary probes: a kernel with an optimization and the one without it, run over many shapes side by side."""
