"""The workload `transpose`: its case and kernels."""
