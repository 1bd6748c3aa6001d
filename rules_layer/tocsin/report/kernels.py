"""GPU time in a step trace, by the definitions of Holistic Trace Analysis (HTA).

See https://hta.readthedocs.io, "Temporal Breakdown" and "Communication Computation Overlap", at
github.com/facebookresearch/HolisticTraceAnalysis, commit f4d0062.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.report.thin import Array

_COMMUNICATION = ("ncclKernel", "ncclDevKernel")  # HTA knows the first, which NCCL has renamed
_MEMORY = ("Memcpy", "Memset")


@dataclass(frozen=True)
class Kernels:
    """Kernels of a GPU, copies among them. ``begins`` and ``ends`` in any one unit of time."""

    names: list[str]
    begins: Array
    ends: Array


@dataclass(frozen=True)
class DeviceTime:
    """Shares of the time from the first kernel's begin to the last one's end.

    compute: kernels that compute run. idle: nothing runs. rest: only communication or copies run.
    communication: it runs, beside others or not. overlap: of the time of communication that in
    which kernels compute, too; None where there is no communication.
    """

    span: float
    idle: float
    compute: float
    rest: float
    communication: float
    overlap: float | None


def device_time(kernels: Kernels) -> DeviceTime | None:
    """None without a kernel that takes time."""
    if not kernels.names:
        return None
    span = float(kernels.ends.max() - kernels.begins.min())
    if not span > 0:
        return None
    kinds = np.array([_kind(name) for name in kernels.names])
    busy = _length(_union(kernels, np.ones(len(kinds), bool)))
    computing = _union(kernels, kinds == "compute")
    communicating = _union(kernels, kinds == "communication")
    compute, communication = _length(computing), _length(communicating)
    both = _shared(computing, communicating)
    return DeviceTime(
        span,
        idle=(span - busy) / span,
        compute=compute / span,
        rest=(busy - compute) / span,
        communication=communication / span,
        overlap=both / communication if communication else None,
    )


def _kind(name: str) -> str:
    if any(part in name for part in _COMMUNICATION):
        return "communication"
    return "memory" if any(part in name for part in _MEMORY) else "compute"


def _union(kernels: Kernels, chosen: Array) -> tuple[Array, Array]:
    """Begins and ends of the times in which any of the chosen kernels runs, apart and in order."""
    order = np.argsort(kernels.begins[chosen], kind="stable")
    begins, ends = kernels.begins[chosen][order], kernels.ends[chosen][order]
    if not begins.size:
        return begins, ends
    latest = np.maximum.accumulate(ends)
    first = np.concatenate(([True], begins[1:] > latest[:-1]))
    last = np.concatenate((first[1:], [True]))
    return begins[first], latest[last]


def _length(times: tuple[Array, Array]) -> float:
    return float((times[1] - times[0]).sum())


def _shared(one: tuple[Array, Array], other: tuple[Array, Array]) -> float:
    """The length of the times that are in both."""
    both = Kernels([], *(np.concatenate(pair) for pair in zip(one, other, strict=True)))
    union = _union(both, np.ones(both.begins.size, bool))
    return _length(one) + _length(other) - _length(union)  # what is in both counts twice
