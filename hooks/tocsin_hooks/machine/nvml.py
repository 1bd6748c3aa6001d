"""Reads NVIDIA's GPUs through NVML, where the package nvidia-ml-py is installed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from tocsin_hooks.machine.gpm import Multiprocessors

_log = logging.getLogger("tocsin")

_SLOWDOWN = 0x8 | 0x20 | 0x40 | 0x80  # hardware, thermal by software and hardware, power brake
_SECOND = 1.0
_SLOW = 60.0  # seconds between two readings of what changes rarely
_ROWS_UNCORRECTABLE, _ROWS_PENDING = 1, 2  # places in NVML's answer on remapped rows
_MOST_EVENTS = 20  # of the driver, between two samples


class Nvml:
    """Samples each GPU that the process may use: utilization, memory, power; temperature,
    slowdowns and the share of active multiprocessors each second; errors each minute, and those of
    the driver (XID) at once.

    What a GPU does not support is left out. One that no longer answers is ``Lost``. Raises
    ImportError without the package, OSError without a driver or a GPU.
    """

    def __init__(self, library: Any = None, visible: str | None = None) -> None:
        self._nvml = library or import_module("pynvml")
        self._refused = set[tuple[int, str]]()
        self._reported = set[int]()
        self._errors: dict[tuple[int, str], float] = {}
        self._active: dict[object, Multiprocessors | None] = {}
        self._next_second = self._next_slow = 0.0
        try:
            self._nvml.nvmlInit()
            found = self._handles(os.environ.get("CUDA_VISIBLE_DEVICES", visible))
        except self._nvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from error
        if not found:
            raise OSError("NVML: no GPU is visible")
        self._devices = found
        self._events = self._event_set()

    def __call__(self) -> Mapping[str, float]:
        now = time.monotonic()
        readings: list[Callable[[Any], Mapping[str, float]]] = [
            self._utilization,
            self._memory,
            self._power,
        ]
        if now >= self._next_second:
            self._next_second = now + _SECOND
            readings += [self._temperature, self._slowdown, self._multiprocessors]
        if now >= self._next_slow:
            self._next_slow = now + _SLOW
            readings += [self._ecc, self._rows, self._replays]
        values = dict(self._driver_errors())
        for number, device in self._devices.items():
            for reading in readings:
                for name, value in self._read(number, device, reading).items():
                    values[f"gpu{number}/{name}"] = value
        return values

    def _handles(self, visible: str | None) -> dict[int, Any]:
        """The GPUs that the process may use, by their number on the machine."""
        nvml = self._nvml
        handles = {
            number: nvml.nvmlDeviceGetHandleByIndex(number)
            for number in range(nvml.nvmlDeviceGetCount())
        }
        if visible is None:
            return handles
        chosen = [part.strip() for part in visible.split(",")]
        return {
            number: handle
            for number, handle in handles.items()
            if str(number) in chosen or self._has_name(handle, chosen)
        }

    def _has_name(self, handle: Any, chosen: list[str]) -> bool:
        """Return whether it is named by a UUID, or the beginning of one."""
        uuid = self._nvml.nvmlDeviceGetUUID(handle)
        text = uuid.decode() if isinstance(uuid, bytes) else uuid
        return any(name.startswith("GPU-") and text.startswith(name) for name in chosen)

    def _read(
        self, number: int, device: Any, reading: Callable[[Any], Mapping[str, float]]
    ) -> Mapping[str, float]:
        """One reading of a GPU; empty, and not tried again, where the GPU does not support it."""
        what = reading.__name__
        if (number, what) in self._refused:
            return {}
        try:
            found = reading(device)
        except self._nvml.NVMLError as error:
            code = getattr(error, "value", None)
            if code == self._nvml.NVML_ERROR_NOT_SUPPORTED:
                self._refused.add((number, what))
                return {}
            if number not in self._reported:
                self._reported.add(number)
                _log.warning("GPU %d cannot be read: %s", number, error)
            return {"Lost": 1.0} if code == self._nvml.NVML_ERROR_GPU_IS_LOST else {}
        return self._increases(number, found)

    def _increases(self, number: int, found: Mapping[str, float]) -> Mapping[str, float]:
        """Counts become what was added since the first reading, because old errors are old."""
        values = dict(found)
        for name in ("ECCUncorrectable", "RowsUncorrectable", "PCIeReplays"):
            if name in values:
                count = values[name]
                values[name] = count - self._errors.setdefault((number, name), count)
                self._errors[number, name] = count
        return values

    def _utilization(self, device: Any) -> Mapping[str, float]:
        rates = self._nvml.nvmlDeviceGetUtilizationRates(device)
        return {"GPUUtilization": float(rates.gpu), "GPUMemoryUtilization": float(rates.memory)}

    def _memory(self, device: Any) -> Mapping[str, float]:
        info = self._nvml.nvmlDeviceGetMemoryInfo(device)
        return {"MemoryUsedPercent": 100 * info.used / info.total}

    def _power(self, device: Any) -> Mapping[str, float]:
        return {"Power": self._nvml.nvmlDeviceGetPowerUsage(device) / 1000}

    def _temperature(self, device: Any) -> Mapping[str, float]:
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        return {"Temperature": float(self._nvml.nvmlDeviceGetTemperature(device, sensor))}

    def _slowdown(self, device: Any) -> Mapping[str, float]:
        reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)
        return {"Slowdown": float(bool(reasons & _SLOWDOWN))}

    def _multiprocessors(self, device: Any) -> Mapping[str, float]:
        key = _address(device)
        if key not in self._active:
            self._active[key] = Multiprocessors.of(self._nvml, device)
        reader = self._active[key]
        active = None if reader is None else reader()
        return {} if active is None else {"SMActive": active}

    def _ecc(self, device: Any) -> Mapping[str, float]:
        nvml = self._nvml
        kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return {"ECCUncorrectable": float(nvml.nvmlDeviceGetTotalEccErrors(device, kind, since))}

    def _rows(self, device: Any) -> Mapping[str, float]:
        rows = self._nvml.nvmlDeviceGetRemappedRows(device)
        return {
            "RowsUncorrectable": float(rows[_ROWS_UNCORRECTABLE]),
            "RowsPending": float(rows[_ROWS_PENDING]),
        }

    def _replays(self, device: Any) -> Mapping[str, float]:
        return {"PCIeReplays": float(self._nvml.nvmlDeviceGetPcieReplayCounter(device))}

    def _event_set(self) -> Any:
        """Events of the driver; None where they cannot be had."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            for device in self._devices.values():
                nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:
            return None
        return events

    def _driver_errors(self) -> Iterator[tuple[str, float]]:
        """The XIDs since the last sample. Which GPU had one is found by its handle."""
        if self._events is None:
            return
        numbers = {_address(device): number for number, device in self._devices.items()}
        try:
            for _ in range(_MOST_EVENTS):
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                number = numbers.get(_address(event.device), min(self._devices))
                yield f"gpu{number}/XID", float(event.eventData)
        except self._nvml.NVMLError:  # a timeout: there is none, or none that can be had
            return


def _address(handle: Any) -> object:
    """A handle that can be compared: NVML's are pointers."""
    contents = getattr(handle, "contents", None)
    if contents is None:
        return handle
    import ctypes

    return ctypes.addressof(contents)
