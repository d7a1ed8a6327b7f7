"""The compiler's worker: CUDA C++ to a cubin by NVRTC, served by `serving`. Stands alone.

It needs no driver and no device. What it says is checked by the parent, and the cubin that it leaves in its folder is
the candidate's.

operation  request                     answer
device     (nothing)                   NVRTC's version
build      text, options, output       entries (parameters' sizes, shared bytes, cluster), figures, log
"""

import re
import struct
from typing import Any

MAX_LOG_CHARACTERS = 64 << 10
MAX_CUBIN_BYTES = 32 << 20
_NAME = "kernel.cu"
_KPARAM_INFO, _CLUSTER_DIMS, _SIZED = 0x17, 0x3D, 4


class Server:
    """Answers requests about NVRTC."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request's answer, or the fault that it ended in."""
        try:
            return _device() if request["op"] == "device" else _build(request)
        except ImportError as error:
            return {"fault": "missing", "text": f"cuda.bindings or NVRTC does not load: {error}"}
        except MemoryError:
            return {"fault": "memory", "text": "the compiler ran out of memory"}
        except (OSError, RuntimeError, ValueError) as error:
            # cuda.bindings raises RuntimeError where the library itself is missing.
            return {"fault": "missing" if request["op"] == "device" else "worker", "text": str(error)}


def _device() -> dict[str, Any]:
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return {"version": f"{major}.{minor}"}


def _build(request: dict[str, Any]) -> dict[str, Any]:
    from cuda.bindings import nvrtc

    error, program = nvrtc.nvrtcCreateProgram(request["text"].encode(), _NAME.encode(), 0, [], [])
    if int(error):
        return {"fault": "worker", "text": f"nvrtcCreateProgram: {error.name}"}
    options = [option.encode() for option in request["options"]]
    error = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    log = _text(nvrtc.nvrtcGetProgramLogSize(program), lambda into: nvrtc.nvrtcGetProgramLog(program, into))
    said = log.decode(errors="backslashreplace")[:MAX_LOG_CHARACTERS]
    if error == nvrtc.nvrtcResult.NVRTC_ERROR_OUT_OF_MEMORY:
        return {"fault": "memory", "text": said}
    if int(error):
        return {"fault": "build", "text": said or error.name}
    cubin = _text(nvrtc.nvrtcGetCUBINSize(program), lambda into: nvrtc.nvrtcGetCUBIN(program, into), keep=True)
    if len(cubin) > MAX_CUBIN_BYTES:
        return {"fault": "memory", "text": f"the compiled code has {len(cubin)} bytes; {MAX_CUBIN_BYTES} are allowed"}
    with open(request["output"], "wb") as file:
        file.write(cubin)
    return {"entries": entries(cubin), "log": said, **figures(said)}


def _text(size: Any, fetch: Any, keep: bool = False) -> bytes:
    into: bytes = b" " * size[1]
    fetch(into)
    return into if keep else into.rstrip(b"\0 \n")


def figures(log: str) -> dict[str, int]:
    """The largest registers and the sum of spilled bytes over all entries, as ptxas says them."""
    registers = [int(found) for found in re.findall(r"Used (\d+) registers", log)]
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    return {
        "registers": max(registers, default=0),
        "spill_bytes": sum(int(stores) + int(loads) for stores, loads in spills),
    }


def entries(cubin: bytes) -> dict[str, dict[str, Any]]:
    """Kernel functions of a 64-bit ELF: the sizes of their parameters in order, static shared bytes, cluster.

    A `.nv.info.NAME` section is a list of (format, attribute, 16-bit value or size, payload).
    """
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + index * size) for index in range(count)]
    base = headers[names][4]
    sections = {}
    for header in headers:
        at = base + header[0]
        sections[cubin[at : cubin.index(b"\0", at)].decode(errors="replace")] = header
    found = {}
    for name, header in sections.items():
        entry = name.removeprefix(".nv.info.")
        if entry != name and f".text.{entry}" in sections:
            parameters, cluster = _info(cubin[header[4] : header[4] + header[5]])
            shared = sections.get(f".nv.shared.{entry}")
            found[entry] = {"parameters": parameters, "cluster": cluster, "shared": shared[5] if shared else 0}
    return found


def _info(data: bytes) -> tuple[list[int], list[int]]:
    sizes, cluster, at = {}, [0, 0, 0], 0
    while at + 4 <= len(data):
        kind, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if kind != _SIZED:
            continue
        if attribute == _KPARAM_INFO:
            _, ordinal, _, packed = struct.unpack_from("<IHHI", data, at)
            sizes[ordinal] = packed >> 18
        elif attribute == _CLUSTER_DIMS:
            cluster = list(struct.unpack_from("<III", data, at))
        at += value
    return [sizes[ordinal] for ordinal in sorted(sizes)], cluster
