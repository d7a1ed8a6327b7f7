"""Other ways to build, check and time one CUDA GEMM kernel, for `benchmarks.gate_speed`; a process of its own.

    python -m benchmarks.speed_peers load_inline

Started with the name of a way, it imports what that needs, opens the device and prints a line of JSON: `ready`, and
`told`, which names versions or says what is missing. Then each line on stdin, `{"code": ..., "size": ...}`, is a kernel
to judge and gets a line: `status`, `seconds` of the whole, and by stage. Nothing is reused from an earlier line: each
has a fresh build folder, and the caller gives each text another comment. The imports and the opening of the device are
in nobody's seconds. Stands alone but for its peer, so that it may run in another interpreter.

The code has an entry `gemm(A, B, C, M, N, K)` of row-major fp32 matrices with a tile of 16 x 16 elements to a block.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

TIMINGS = 20
_LAUNCH = "gemm<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)"
_INLINE_DECLARATION = "torch::Tensor run(torch::Tensor a, torch::Tensor b);"
_INLINE = f"""
torch::Tensor run(torch::Tensor a, torch::Tensor b)
{{
    int m = a.size(0), n = b.size(1), k = a.size(1);
    auto c = torch::empty({{m, n}}, a.options());
    {_LAUNCH}>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
    return c;
}}
"""
_FFI_HEAD = """#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
"""
_FFI = f"""
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c)
{{
    int m = a.size(0), n = b.size(1), k = a.size(1);
    DLDevice device = a.device();
    auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
    {_LAUNCH}, 0, stream>>>(static_cast<const float *>(a.data_ptr()), static_cast<const float *>(b.data_ptr()),
        static_cast<float *>(c.data_ptr()), m, n, k);
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
_REFERENCE = """import torch

def run(a, b):
    return torch.matmul(a, b)
"""

Judge = Callable[[str, int, Path], dict[str, Any]]
"""Code, size and an empty folder to build in; gives `status` and seconds by stage. Anything may be raised."""


class Missing(Exception):
    """What this way needs and the machine has not; one line."""


def main() -> None:
    """Answer lines until stdin ends. What a compiler prints does not get between the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        told, judge = WAYS[sys.argv[1]]()
    except Missing as missing:
        answer(ready=False, told=str(missing))
        return
    answer(ready=True, told=told)
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(tempfile.mkdtemp(prefix="speed-peer-"))
        begun = time.perf_counter()
        try:
            found = judge(asked["code"], asked["size"], folder)
        except Exception as error:
            # Whatever a peer raises is its answer, and the rounds go on.
            found = {"status": "raised", "told": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
        seconds = time.perf_counter() - begun
        shutil.rmtree(folder, ignore_errors=True)
        answer(**found, seconds=seconds)


def _load_inline() -> tuple[str, Judge]:
    """`torch.utils.cpp_extension.load_inline`: a PyTorch extension, held against `torch.matmul`."""
    torch = _torch()
    extension = import_module("torch.utils.cpp_extension")
    if shutil.which("nvcc") is None and extension.CUDA_HOME is None:
        raise Missing("no nvcc")
    if not extension.is_ninja_available():
        raise Missing("no ninja")
    numbers = iter(range(1 << 30))

    def judge(code: str, size: int, folder: Path) -> dict[str, Any]:
        clock = _Clock()
        module = extension.load_inline(
            name=f"klineage_speed_{os.getpid()}_{next(numbers)}",
            cpp_sources=_INLINE_DECLARATION,
            cuda_sources=code + _INLINE,
            functions=["run"],
            build_directory=str(folder),
        )
        clock.lap("compile")
        a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
        right = bool(torch.allclose(module.run(a, b), torch.matmul(a, b), rtol=1e-3, atol=1e-3))
        clock.lap("correctness")
        for _ in range(TIMINGS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            module.run(a, b)
            end.record()
            end.synchronize()
            start.elapsed_time(end)
        clock.lap("profile")
        return {"status": "ok" if right else "wrong_value", **clock.laps}

    return f"PyTorch {torch.__version__}", judge


def _flashinfer_bench() -> tuple[str, Judge]:
    """flashinfer-bench's isolated runner, with a TVM-FFI binding, which builds faster than a PyTorch extension."""
    _torch()
    try:
        bench, data = import_module("flashinfer_bench.bench"), import_module("flashinfer_bench.data")
        runner_module = import_module("flashinfer_bench.bench.runner")
        import_module("tvm_ffi")
    except ImportError as error:
        raise Missing(f"not installed: {error}") from None
    cache = tempfile.mkdtemp(prefix="speed-peer-cache-")
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    os.environ["FIB_CACHE_PATH"] = cache  # It keeps builds there, by a hash of the text.
    matrix = {"shape": None, "dtype": "float32"}
    definition = data.Definition(
        name="gemm",
        op_type="gemm",
        axes={axis: {"type": "var"} for axis in "MNK"},
        inputs={"a": {**matrix, "shape": ["M", "K"]}, "b": {**matrix, "shape": ["K", "N"]}},
        outputs={"c": {**matrix, "shape": ["M", "N"]}},
        reference=_REFERENCE,
    )
    config = bench.BenchmarkConfig(use_isolated_runner=True, iterations=TIMINGS, num_trials=1, log_dir=cache)
    runner = runner_module.IsolatedRunner(cache)

    def judge(code: str, size: int, folder: Path) -> dict[str, Any]:
        solution = data.Solution(
            name=folder.name,
            definition="gemm",
            author="klineage",
            spec={
                "language": "cuda",
                "target_hardware": ["cuda"],
                "entry_point": "kernel.cu::run",
                "binding": "tvm-ffi",
            },
            sources=[{"path": "kernel.cu", "content": _FFI_HEAD + code + _FFI}],
        )
        workload = data.Workload(
            axes={axis: size for axis in "MNK"},
            inputs={name: {"type": "random"} for name in "ab"},
            uuid=folder.name,
        )
        found = runner.run_workload(definition, workload, [solution], config, folder)[solution.name]
        passed = found.status.value == "PASSED"
        told = "" if passed else " ".join(str(found.log).split())[-300:]
        return {"status": "ok" if passed else found.status.value.lower(), "told": told}

    return f"flashinfer-bench {version('flashinfer-bench')}", judge


WAYS: dict[str, Callable[[], tuple[str, Judge]]] = {
    "load_inline": _load_inline,
    "flashinfer_bench": _flashinfer_bench,
}


class _Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._at = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage] = now - self._at
        self._at = now


def _torch() -> Any:
    """PyTorch with an open device. Raises Missing."""
    try:
        torch = import_module("torch")  # By name: no dependency of ours, and not there for a type checker.
    except ImportError:
        raise Missing("not installed: no torch") from None
    if not torch.cuda.is_available():
        raise Missing("torch sees no CUDA device")
    torch.matmul(*(torch.zeros(16, 16, device="cuda") for _ in range(2)))
    torch.cuda.synchronize()
    return torch


if __name__ == "__main__":
    main()
