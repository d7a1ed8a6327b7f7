"""The CUDA worker: one process that runs cubins on the first GPU, served by `serving`. Stands alone but for NumPy, CuPy
and, for tensor maps and clusters, cuda.bindings.

One allocation of the device mirrors the shared pages, guard zones included. A plan's buffers are copied to it just
before its launches, and all is copied back after the last plan; the parent judges its own copy. Before each launch list
the L2 cache is flushed and its persisting lines are reset, so that a checked call and a timed one are the same thing.

operation  request                                       answer
device     apart, heap_bytes                             facts of the device
build      kernel, path of the cubin, entries            (registers and loads its functions)
pages      path, nbytes
bind       plan, kernel, buffers, launches, zero, maps
run        plans, extent                                 seconds of each, start of the first command to end of the last
overhead                                                 seconds of one: what is measured of a tiny command
drop                                                     (forgets all plans)
"""

import ctypes
import mmap
import os
from typing import Any

_HEAP_LIMIT = 2
"""cudaLimitMallocHeapSize."""
_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
_FLUSHES_PER_LAUNCH = 0.25
"""So that the queue is full before its first launch begins, and no gap on the host is timed."""
_OVERHEAD_ROUNDS = 21
_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3
"""cudaMemcpyKind."""


class Server:
    """Answers requests about one CUDA device and the kernels loaded on it."""

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError as error:
            self.cupy: Any = None
            self.missing = f"CuPy does not load: {error}"
        else:
            self.cupy = cupy
        self.modules: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.plans: dict[str, _Plan] = {}
        self.arena: Any = None
        self.backup: Any = None
        self.backup_bytes = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request's answer, or the fault that it ended in."""
        cupy = self.cupy
        if cupy is None:
            return {"fault": "missing", "text": self.missing}
        try:
            answer: dict[str, Any] = getattr(self, "do_" + request["op"])(request)
            return answer
        except cupy.cuda.memory.OutOfMemoryError as error:
            return {"fault": "memory", "text": str(error)}
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError, _Refused) as error:
            kind = "memory" if "MemoryAllocation" in str(error) or "OUT_OF_MEMORY" in str(error) else "runtime"
            kind = "missing" if request["op"] == "device" else kind
            return {"fault": kind, "text": str(error)}
        except MemoryError:
            return {"fault": "memory", "text": "the worker ran out of memory"}
        except (AttributeError, ImportError, KeyError, OSError, TypeError, ValueError) as error:
            return {"fault": "worker", "text": f"{type(error).__name__}: {error}"}

    def do_device(self, request: dict[str, Any]) -> dict[str, Any]:
        cupy = self.cupy
        runtime = cupy.cuda.runtime
        if runtime.getDeviceCount() < 1:
            return {"fault": "missing", "text": "no CUDA device"}
        self.apart = request["apart"]
        runtime.setDevice(0)
        # Not more than a candidate may print or allocate anyhow.
        runtime.deviceSetLimit(_HEAP_LIMIT, request["heap_bytes"])
        found = runtime.getDeviceProperties(0)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.events = cupy.cuda.Event(), cupy.cuda.Event()
        self.flush_bytes = 2 * found["l2CacheSize"]
        self.flush = cupy.cuda.Memory(self.flush_bytes)
        self.reset_persisting = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
        free, _ = runtime.memGetInfo()
        return {
            "name": found["name"].decode(),
            "version": f"{found['major']}.{found['minor']}",
            "driver": str(runtime.driverGetVersion()),
            "runtime": str(runtime.runtimeGetVersion()),
            "compute_units": found["multiProcessorCount"],
            "max_group": found["maxThreadsPerBlock"],
            "max_items": list(found["maxThreadsDim"]),
            "local_bytes": found["sharedMemPerBlockOptin"],
            "alloc_bytes": free // 2,
        }

    def do_build(self, request: dict[str, Any]) -> dict[str, Any]:
        module = self.cupy.cuda.function.Module()
        with open(request["path"], "rb") as file:
            module.load(file.read())
        functions = {name: module.get_function(name) for name in request["entries"]}
        self.modules[request["kernel"]] = (module, functions)
        return {}

    def do_pages(self, request: dict[str, Any]) -> dict[str, Any]:
        descriptor = os.open(request["path"], os.O_RDWR)
        self.pages = mmap.mmap(descriptor, request["nbytes"])
        os.close(descriptor)
        self.host = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.arena = None if self.apart else self.cupy.cuda.Memory(request["nbytes"])
        return {}

    def do_bind(self, request: dict[str, Any]) -> dict[str, Any]:
        spans = {name: (offset, nbytes) for name, (offset, nbytes) in request["buffers"].items()}
        if self.arena is None:
            buffers = {name: self.cupy.cuda.Memory(max(1, nbytes)) for name, (_, nbytes) in spans.items()}
            addresses = {name: buffer.ptr for name, buffer in buffers.items()}
        else:
            buffers = {}
            addresses = {name: self.arena.ptr + offset for name, (offset, _) in spans.items()}
        maps = {name: _encode(each, addresses[each["tensor"]]) for name, each in request["maps"].items()}
        _, functions = self.modules[request["kernel"]]
        launches = []
        for launch in request["launches"]:
            function = functions[launch["entry"]]
            if launch["shared"]:
                self.cupy.cuda.driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, launch["shared"])
            launches.append((function, launch, self._arguments(launch["args"], addresses, maps)))
        zero = [(addresses[name], spans[name][1]) for name in request["zero"]]
        self.plans[request["plan"]] = _Plan(launches, zero, spans, addresses, buffers)
        return {}

    def _arguments(self, args: list[Any], addresses: dict[str, int], maps: dict[str, bytes]) -> list[Any]:
        import numpy

        values: list[Any] = []
        for kind, value in args:
            if kind == "buffer":
                values.append(numpy.uintp(addresses[value]))
            elif kind == "map":
                values.append(numpy.void(maps[value]))
            else:
                values.append(numpy.dtype(kind).type(value))
        return values

    def do_run(self, request: dict[str, Any]) -> dict[str, Any]:
        names = request["plans"]
        plans = [self.plans[name] for name in names]
        again = len({*names}) < len(names)
        if self.arena is not None:
            self._copy_in(self._between(plans, min(request["extent"], len(self.pages))))
        seconds, last = [], None
        for plan in plans:
            # Inputs and poison of a call reach the device when the calls before it are over: none can compute ahead.
            if plan is last:
                self._restore(plan)
            else:
                self._copy_in(self._parts(plan))
                if again:
                    self._back_up(plan)
            seconds.append(self._run(plan))
            last = plan
        self.stream.synchronize()
        self._copy_out(plans, request["extent"])
        return {"seconds": seconds}

    def _parts(self, plan: Any) -> list[tuple[int, int, int]]:
        """(device address, host address, bytes) of a plan's buffers."""
        return [(plan.addresses[name], self.host + offset, nbytes) for name, (offset, nbytes) in plan.spans.items()]

    def _between(self, plans: list[Any], extent: int) -> list[tuple[int, int, int]]:
        """The same of what lies between the buffers of all plans: guard zones, and what none of them uses."""
        parts, at = [], 0
        for offset, nbytes in sorted({span for plan in plans for span in plan.spans.values()}):
            if at < min(offset, extent):
                parts.append((at, min(offset, extent) - at))
            at = max(at, offset + nbytes)
        if at < extent:
            parts.append((at, extent - at))
        return [(self.arena.ptr + offset, self.host + offset, nbytes) for offset, nbytes in parts]

    def _copy_in(self, parts: list[tuple[int, int, int]]) -> None:
        for device, host, nbytes in parts:
            self.cupy.cuda.runtime.memcpyAsync(device, host, nbytes, _TO_DEVICE, self.stream.ptr)

    def _copy_out(self, plans: list[Any], extent: int) -> None:
        parts = [part for plan in plans for part in self._parts(plan)]
        if self.arena is not None:
            parts = [(self.arena.ptr, self.host, min(extent, len(self.pages)))]
        for device, host, nbytes in parts:
            self.cupy.cuda.runtime.memcpyAsync(host, device, nbytes, _TO_HOST, self.stream.ptr)
        self.stream.synchronize()

    def _back_up(self, plan: Any) -> None:
        """Keep a plan's buffers on the device, for calls that find the same state."""
        need = sum(nbytes for _, nbytes in plan.spans.values())
        if self.backup is None or self.backup_bytes < need:
            self.backup, self.backup_bytes = self.cupy.cuda.Memory(need), need
        self._within(plan, to_backup=True)

    def _restore(self, plan: Any) -> None:
        self._within(plan, to_backup=False)

    def _within(self, plan: Any, to_backup: bool) -> None:
        at = self.backup.ptr
        for name, (_, nbytes) in plan.spans.items():
            pair = (at, plan.addresses[name]) if to_backup else (plan.addresses[name], at)
            self.cupy.cuda.runtime.memcpyAsync(*pair, nbytes, _ON_DEVICE, self.stream.ptr)
            at += nbytes

    def _run(self, plan: Any) -> float:
        runtime, stream = self.cupy.cuda.runtime, self.stream
        start, stop = self.events
        # As many for each plan, so that what a call costs beside its launches is the same for all.
        self._flush(1 + int(_FLUSHES_PER_LAUNCH * max(len(other.launches) for other in self.plans.values())))
        start.record(stream)
        for address, nbytes in plan.zero:
            runtime.memsetAsync(address, 0, nbytes, stream.ptr)
        for function, launch, values in plan.launches:
            if launch["cluster"]:
                _launch_cluster(function.ptr, launch, values, stream.ptr)
            else:
                function(
                    tuple(launch["grid"]), tuple(launch["block"]), values, shared_mem=launch["shared"], stream=stream
                )
        stop.record(stream)
        stop.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e-3

    def _flush(self, times: int) -> None:
        self.reset_persisting()
        for _ in range(times):
            self.cupy.cuda.runtime.memsetAsync(self.flush.ptr, 0, self.flush_bytes, self.stream.ptr)

    def do_overhead(self, request: dict[str, Any]) -> dict[str, Any]:
        start, stop = self.events
        seen = []
        for _ in range(_OVERHEAD_ROUNDS):
            self._flush(1)
            start.record(self.stream)
            self.cupy.cuda.runtime.memsetAsync(self.flush.ptr, 0, 4, self.stream.ptr)
            stop.record(self.stream)
            stop.synchronize()
            seen.append(float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e-3)
        return {"seconds": [sorted(seen)[len(seen) // 2]]}

    def do_drop(self, request: dict[str, Any]) -> dict[str, Any]:
        self.plans.clear()
        return {}


class _Plan:
    def __init__(self, launches: Any, zero: Any, spans: Any, addresses: Any, buffers: Any) -> None:
        self.launches, self.zero, self.spans, self.addresses = launches, zero, spans, addresses
        self.buffers = buffers


class _Refused(Exception):
    """The driver refused a call that cuda.bindings made."""


def _checked(result: Any) -> Any:
    error, *values = result
    if int(error):
        raise _Refused(f"{error.name}")
    return values[0] if values else None


def _launch_cluster(function: int, launch: dict[str, Any], values: list[Any], stream: int) -> None:
    """cuLaunchKernelEx with a cluster's size."""
    from cuda.bindings import driver

    keep = [ctypes.create_string_buffer(value.tobytes(), value.nbytes) for value in values]
    pointers = (ctypes.c_void_p * max(1, len(keep)))(*map(ctypes.addressof, keep))
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = launch["cluster"]
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch["grid"]
    config.blockDimX, config.blockDimY, config.blockDimZ = launch["block"]
    config.sharedMemBytes, config.hStream = launch["shared"], driver.CUstream(stream)
    config.attrs, config.numAttrs = [attribute], 1
    _checked(driver.cuLaunchKernelEx(config, driver.CUfunction(function), ctypes.addressof(pointers), 0))


_MAP_TYPES = {
    "u8": ("UINT8", 1),
    "u16": ("UINT16", 2),
    "u32": ("UINT32", 4),
    "i32": ("INT32", 4),
    "u64": ("UINT64", 8),
    "i64": ("INT64", 8),
    "f16": ("FLOAT16", 2),
    "f32": ("FLOAT32", 4),
    "f64": ("FLOAT64", 8),
    "bf16": ("BFLOAT16", 2),
}


def _encode(declared: dict[str, Any], address: int) -> bytes:
    """The 128 bytes of a tensor map. Lists come in tensor order; the driver wants the innermost first."""
    from cuda.bindings import driver

    name, size = _MAP_TYPES[declared["dtype"]]
    swizzle, l2, interleave = declared["swizzle"], declared["l2"], declared["interleave"]
    common = (
        _constant(driver, "CUtensorMapInterleave", f"INTERLEAVE_{interleave}B" if interleave else "INTERLEAVE_NONE"),
        _constant(driver, "CUtensorMapSwizzle", f"SWIZZLE_{swizzle}B" if swizzle else "SWIZZLE_NONE"),
        _constant(driver, "CUtensorMapL2promotion", f"L2_PROMOTION_L2_{l2}B" if l2 else "L2_PROMOTION_NONE"),
        _constant(
            driver,
            "CUtensorMapFloatOOBfill",
            "FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA" if declared["oob"] == "nan" else "FLOAT_OOB_FILL_NONE",
        ),
    )
    dtype = _constant(driver, "CUtensorMapDataType", f"DATA_TYPE_{name}")
    start = address + declared["offset"] * size
    sizes = [driver.cuuint64_t(value) for value in reversed(declared["shape"])]
    strides = [driver.cuuint64_t(value * size) for value in reversed(declared["strides"][:-1])]
    steps = [driver.cuuint32_t(value) for value in reversed(declared["estrides"])]
    rank = len(sizes)
    if declared["mode"] == "im2col":
        lower, upper = declared["lower"][::-1], declared["upper"][::-1]
        made = driver.cuTensorMapEncodeIm2col(
            dtype,
            rank,
            start,
            sizes,
            strides,
            lower,
            upper,
            declared["channels"],
            declared["pixels"],
            steps,
            *common,
        )
    else:
        box = [driver.cuuint32_t(value) for value in reversed(declared["box"])]
        made = driver.cuTensorMapEncodeTiled(dtype, rank, start, sizes, strides, box, steps, *common)
    return ctypes.string_at(_checked(made).getPtr(), 128)


def _constant(driver: Any, kind: str, name: str) -> Any:
    return getattr(getattr(driver, kind), f"CU_TENSOR_MAP_{name}")
