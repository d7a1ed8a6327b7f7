"""The CUDA surface: NVRTC, a device worker, tensor maps, compute-sanitizer."""
