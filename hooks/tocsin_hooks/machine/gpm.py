"""Reads how many of a GPU's multiprocessors work, through NVML's GPM: Hopper and later."""

from __future__ import annotations

import math
from typing import Any

_SUCCESS = 0


class Multiprocessors:
    """The share of a GPU's multiprocessors (SM) that were active, in %, between two calls.

    A GPU counts as used 100 % while one small kernel runs; this says how much of it works. Raises
    the library's NVMLError.
    """

    def __init__(self, library: Any, device: Any) -> None:
        self._nvml = library
        self._device = device
        self._before = library.nvmlGpmSampleGet(device, library.nvmlGpmSampleAlloc())
        self._spare = library.nvmlGpmSampleAlloc()
        self._request = library.c_nvmlGpmMetricsGet_t()  # 19 kB, so one is enough
        self._request.version = library.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = 1
        self._request.metrics[0].metricId = library.NVML_GPM_METRIC_SM_UTIL

    @classmethod
    def of(cls, library: Any, device: Any) -> Multiprocessors | None:
        """Return the reader of a GPU; None for an older GPU, driver or package."""
        try:
            if not library.nvmlGpmQueryDeviceSupport(device).isSupportedDevice:
                return None
            return cls(library, device)
        except (library.NVMLError, AttributeError):
            return None

    def __call__(self) -> float | None:
        """Return the share since the last call; None if it is not known."""
        now = self._nvml.nvmlGpmSampleGet(self._device, self._spare)
        self._request.sample1, self._request.sample2 = self._before, now
        self._spare, self._before = self._before, now
        self._nvml.nvmlGpmMetricsGet(self._request)
        metric = self._request.metrics[0]
        known = metric.nvmlReturn == _SUCCESS and math.isfinite(metric.value)
        return float(metric.value) if known else None
