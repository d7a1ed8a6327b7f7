"""The workload `reduction`: its case and kernels."""
