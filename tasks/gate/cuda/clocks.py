"""What NVML says of the first GPU while kernels are timed. Optional: without its Python package nothing is said."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

_REASONS = {
    "SwPowerCap": "power cap",
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "software thermal slowdown",
    "HwThermalSlowdown": "hardware thermal slowdown",
    "HwPowerBrakeSlowdown": "power brake",
    "ApplicationsClocksSetting": "application clocks",
    "SyncBoost": "sync boost",
}
"""NVML's names behind nvmlClocksThrottleReason, and ours."""


class Clocks:
    """Collects looks at the clock. In the parent: a worker is not asked what it could make up."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._seen: list[int] = []
        self._reasons: set[str] = set()
        try:
            import pynvml
        except ImportError:
            return
        with suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            self._device = pynvml.nvmlDeviceGetHandleByIndex(0)
            self._nvml = pynvml

    def look(self) -> None:
        """Take the clock now."""
        nvml = self._nvml
        if nvml is None:
            return
        with suppress(nvml.NVMLError):
            self._seen.append(nvml.nvmlDeviceGetClockInfo(self._device, nvml.NVML_CLOCK_SM))
            bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._device)
            names = {told: getattr(nvml, f"nvmlClocksThrottleReason{name}", 0) for name, told in _REASONS.items()}
            self._reasons |= {told for told, bit in names.items() if bits & bit}

    @property
    def range_mhz(self) -> tuple[int, int] | None:
        """Lowest and highest so far."""
        return (min(self._seen), max(self._seen)) if self._seen else None

    @property
    def throttled(self) -> tuple[str, ...] | None:
        """Why clocks were held down at any look."""
        return tuple(sorted(self._reasons)) if self._seen else None
