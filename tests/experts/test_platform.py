"""Platforms by name, and the environment that effects are keyed by."""

from __future__ import annotations

import pytest

from experts import platform
from experts.platform import PLATFORMS, Isa, PlatformError, env_id, environment, named, select


def test_named() -> None:
    assert {name: named(name).name for name in PLATFORMS} == {name: name for name in PLATFORMS}
    with pytest.raises(PlatformError) as caught:
        named("pocl-x86-avx1024")
    message = str(caught.value)
    assert "unknown platform 'pocl-x86-avx1024'; there are pocl-x86-avx512" in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("isa", "name"), [("avx512", "pocl-x86-avx512"), ("avx2", "pocl-x86-avx2"), ("x86-64", "pocl-x86-64")]
)
def test_the_default_for_opencl_is_pocl_by_isa(monkeypatch: pytest.MonkeyPatch, isa: Isa, name: str) -> None:
    monkeypatch.setattr(platform, "cpu_isa", lambda: isa)
    assert select("opencl", None).name == name
    assert select("opencl", name).opencl_name == "Portable Computing Language"
    for other in {"pocl-x86-avx512", "pocl-x86-avx2", "pocl-x86-64"} - {name}:
        with pytest.raises(PlatformError, match=f"platform {other} needs a CPU with .*; this one is {isa}"):
            select("opencl", other)


@pytest.mark.parametrize(
    ("surface", "name", "message"),
    [
        ("cuda", None, "need a CUDA device"),
        ("triton", None, "need a CUDA device"),
        ("cuda", "sm90", "need a CUDA device"),
        ("opencl", "sm90", "platform sm90 runs cuda, triton, tilelang, not opencl"),
        ("cuda", "pocl-x86-avx2", "runs opencl, not cuda"),
        ("opencl", "", "unknown platform ''"),
        ("opencl", "Oclgrind", "unknown platform"),
    ],
)
def test_what_cannot_run_here_is_one_line(
    monkeypatch: pytest.MonkeyPatch, surface: platform.Surface, name: str | None, message: str
) -> None:
    monkeypatch.setattr(platform, "gpu", lambda: None)
    with pytest.raises(PlatformError) as caught:
        select(surface, name)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


H200 = {"name": "NVIDIA H200", "driver_version": "580.1", "compute_cap": "9.0"}


def test_the_platform_of_a_gpu_follows_from_its_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "gpu", lambda: H200)
    assert select("cuda", None) is select("cuda", "sm90") is PLATFORMS["sm90"]
    with pytest.raises(PlatformError, match="platform sm120 is not this machine's GPU; --compile-only needs none"):
        select("cuda", "sm120")
    monkeypatch.setattr(platform, "gpu", lambda: {**H200, "name": "Old", "compute_cap": "7.0"})
    with pytest.raises(PlatformError, match=r"Old has compute capability 7\.0; there is no platform for it"):
        select("cuda", None)


def test_compiling_needs_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "gpu", lambda: None)
    assert select("cuda", "sm120", compile_only=True) is PLATFORMS["sm120"]
    with pytest.raises(PlatformError, match="name one: --platform sm90"):
        select("cuda", None, compile_only=True)


@pytest.mark.parametrize(
    ("flags", "isa"),
    [
        ("sse2 avx2 fma avx512f avx512bw avx512vl", "avx512"),
        ("sse2 avx2 fma avx512f", "avx2"),
        ("sse2 avx2", "x86-64"),
        ("", "x86-64"),
    ],
)
def test_isa(monkeypatch: pytest.MonkeyPatch, flags: str, isa: Isa) -> None:
    monkeypatch.setattr(platform, "_cpuinfo", lambda key: flags if key == "flags" else "")
    assert platform.cpu_isa() == isa


def test_the_floor_is_the_larger_of_compute_and_memory() -> None:
    here = named("pocl-x86-avx2")
    assert here.floor_seconds(0, 0, 1) == 0
    compute = here.floor_seconds(0, 10**9, 1)
    memory = here.floor_seconds(10**9, 0, 1)
    assert here.floor_seconds(10**9, 10**9, 1) == max(compute, memory)
    assert here.floor_seconds(0, 10**9, 4) == pytest.approx(compute / 4)
    assert named("pocl-x86-avx512").floor_seconds(0, 10**9, 1) == pytest.approx(compute / 2)
    # Two fused multiply-adds of eight lanes a cycle at 6 GHz.
    assert compute == pytest.approx(10**9 / (6e9 * 32))


def test_the_environment_holds_what_times_depend_on() -> None:
    facts = environment(named("pocl-x86-avx2"), {"driver": "3.0"})
    assert facts["platform"] == "pocl-x86-avx2" and facts["device.driver"] == "3.0"
    assert int(facts["threads"]) >= 1 and facts["cpu"] and facts["package.numpy"]
    assert all(isinstance(value, str) for value in facts.values())


@pytest.mark.parametrize("change", ["cpu", "threads", "device.driver", "package.numpy", "python", "platform"])
def test_env_id_changes_with_each_fact(change: str) -> None:
    facts = environment(named("pocl-x86-avx2"), {"driver": "3.0"})
    assert env_id(facts) == env_id(dict(reversed(facts.items())))
    assert env_id({**facts, change: "other"}) != env_id(facts)
    assert env_id({key: value for key, value in facts.items() if key != change}) != env_id(facts)


def test_no_name_of_the_machine_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass
    import socket

    facts = environment(named("pocl-x86-avx2"), {})
    text = " ".join(facts.values()).split()
    assert socket.gethostname() not in text
    assert getpass.getuser() not in text


def test_a_package_that_is_not_there() -> None:
    assert platform.package_version("no-such-package-klineage") is None
    assert platform.package_version("numpy")
