"""The OpenCL worker: one process for one candidate, served by `serving`. Stands alone but for NumPy and pyopencl.

Nothing that this process says is believed by the parent: outputs are read from the shared pages and judged there, times
are held against the parent's clock.

operation  request                          answer
device     opencl: platform name, copies    facts of the device
build      text, options                    entries (arguments, local and private bytes), or a log
pages      path, nbytes
bind       plan, buffers, launches, zero
run        plans                            seconds of each, first command's start to last one's end
drop                                        (forgets all plans)
"""

import mmap
import os
from typing import Any

MOST_ALIGNED = 128
"""Bytes: no type is more aligned."""
_OLD_POCL = "3.0-rc2"
"""The version in PyPI's pocl-binary-distribution, of which there is one build."""
_OLD_POCL_TRIPLE = 632
"""Bytes into its device; the next field is the CPU's name."""
_CPU_LEVELS = {3: b"x86-64-v3", 4: b"x86-64-v4"}
"""Kept for as long as the process, since PoCL gets the pointers."""


def _name_cpu(device: Any) -> None:
    """Tell PoCL 3.0 what CPU this is where its LLVM 14 knows no name for it (Zen 5 and later).

    It then compiles for `generic`, which is none of x86, and refuses every kernel. No setting of PoCL's reaches the
    name, which the device keeps behind its target triple: both are looked at before one is changed.
    """
    if device.driver_version != _OLD_POCL:
        return
    import ctypes

    fields = (ctypes.c_char_p * 2).from_address(device.int_ptr + _OLD_POCL_TRIPLE)
    if (fields[0] or b"").startswith(b"x86_64") and fields[1] == b"generic":
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
        level = 4 if {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"} <= {*flags} else 3
        if level == 4 or {"avx2", "fma", "bmi2"} <= {*flags}:
            fields[1] = _CPU_LEVELS[level]


class Server:
    """Answers requests about one OpenCL device and one kernel."""

    def __init__(self) -> None:
        import numpy
        import pyopencl

        self.np, self.cl = numpy, pyopencl
        self.plans: dict[str, Any] = {}
        self.copies = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request's answer, or the fault that it ended in."""
        cl = self.cl
        try:
            answer: dict[str, Any] = getattr(self, "do_" + request["op"])(request)
            return answer
        except cl.MemoryError as error:
            return {"fault": "memory", "text": str(error)}
        except cl.RuntimeError as error:
            return {"fault": "runtime", "text": str(error)}
        except cl.LogicError as error:
            return {"fault": "logic", "text": str(error)}
        except MemoryError:
            return {"fault": "memory", "text": "the worker ran out of memory"}
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            return {"fault": "worker", "text": f"{type(error).__name__}: {error}"}

    def do_device(self, request: dict[str, Any]) -> dict[str, Any]:
        cl = self.cl
        found = [platform for platform in cl.get_platforms() if platform.name == request["opencl"]]
        if not found:
            return {"fault": "missing", "text": f"no OpenCL platform {request['opencl']!r}"}
        device = found[0].get_devices()[0]
        _name_cpu(device)
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.copies = request["copies"]
        return {
            "name": device.name,
            "version": device.version,
            "driver": device.driver_version,
            "runtime": found[0].version,
            "compute_units": device.max_compute_units,
            "max_group": device.max_work_group_size,
            "max_items": list(device.max_work_item_sizes),
            "local_bytes": device.local_mem_size,
            "alloc_bytes": device.max_mem_alloc_size,
        }

    def do_build(self, request: dict[str, Any]) -> dict[str, Any]:
        cl = self.cl
        self.program = cl.Program(self.context, request["text"])
        try:
            self.program.build(options=request["options"], cache_dir=False)
        except cl.RuntimeError as error:
            return {"fault": "build", "text": str(error)}
        device = self.context.devices[0]
        entries = {}
        for kernel in self.program.all_kernels():
            group = cl.kernel_work_group_info
            arguments = []
            for index in range(kernel.num_args):
                arguments.append(
                    [
                        kernel.get_arg_info(index, cl.kernel_arg_info.TYPE_NAME),
                        _space(cl, kernel.get_arg_info(index, cl.kernel_arg_info.ADDRESS_QUALIFIER)),
                    ]
                )
            entries[kernel.function_name] = {
                "arguments": arguments,
                "local_bytes": kernel.get_work_group_info(group.LOCAL_MEM_SIZE, device),
                "private_bytes": kernel.get_work_group_info(group.PRIVATE_MEM_SIZE, device),
                "group": list(kernel.get_work_group_info(group.COMPILE_WORK_GROUP_SIZE, device)),
            }
        return {"entries": entries}

    def do_pages(self, request: dict[str, Any]) -> dict[str, Any]:
        descriptor = os.open(request["path"], os.O_RDWR)
        self.pages = mmap.mmap(descriptor, request["nbytes"])
        os.close(descriptor)
        self.memory = self.np.frombuffer(self.pages, self.np.uint8)
        return {}

    def do_bind(self, request: dict[str, Any]) -> dict[str, Any]:
        cl, np = self.cl, self.np
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        buffers, views = {}, {}
        for name, (offset, nbytes) in request["buffers"].items():
            views[name] = self.memory[offset : offset + nbytes]
            buffers[name] = cl.Buffer(self.context, flags, hostbuf=views[name])
            shift = offset % MOST_ALIGNED
            if self.copies and shift:
                # A simulator's buffers lie in memory of its own, all aligned: a part of a larger one does not.
                whole = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, shift + nbytes)
                buffers[name] = whole.get_sub_region(shift, nbytes)
        launches = []
        for launch in request["launches"]:
            kernel = cl.Kernel(self.program, launch["entry"])
            for index, (kind, value) in enumerate(launch["args"]):
                kernel.set_arg(index, buffers[value] if kind == "buffer" else np.dtype(kind).type(value))
            launches.append((kernel, launch["global"], launch["local"]))
        zero = [(buffers[name], views[name].nbytes) for name in request["zero"]]
        self.plans[request["plan"]] = (launches, zero, [(views[name], buffers[name]) for name in buffers])
        return {}

    def do_run(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"seconds": [self._run(plan) for plan in request["plans"]]}

    def do_drop(self, request: dict[str, Any]) -> dict[str, Any]:
        self.plans.clear()
        return {}

    def _run(self, plan: str) -> float:
        cl, queue = self.cl, self.queue
        launches, zero, memory = self.plans[plan]
        if self.copies:
            for view, buffer in memory:
                cl.enqueue_copy(queue, buffer, view)
        events = [cl.enqueue_fill(queue, buffer, self.np.zeros(1, self.np.uint8), nbytes) for buffer, nbytes in zero]
        for kernel, size, group in launches:
            events.append(cl.enqueue_nd_range_kernel(queue, kernel, size, group))
        queue.finish()
        if self.copies:
            for view, buffer in memory:
                cl.enqueue_copy(queue, view, buffer)
        for event in events:
            if event.command_execution_status < 0:
                raise cl.RuntimeError(f"a command ended with status {event.command_execution_status}")
        return float(events[-1].profile.end - events[0].profile.start) * 1e-9


def _space(cl: Any, value: int) -> str:
    spaces = cl.kernel_arg_address_qualifier
    return {spaces.GLOBAL: "global", spaces.CONSTANT: "constant", spaces.LOCAL: "local"}.get(value, "private")
