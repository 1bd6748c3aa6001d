"""One minute of a machine, as the tensors of a step of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode, Role, TensorSummary
from tocsin.tensors import Captured

_QUANTILES = (0.05, 0.5, 0.95)
_MOST_SAMPLES = 120  # inline: of a faster interval the means of several ticks
_MOST_DURATIONS = 500  # inline: of more, every n-th
_DIGITS = 4

KINDS = {
    "GPUUtilization": "gpu_utilization",
    "GPUMemoryUtilization": "gpu_memory_activity",
    "MemoryUsedPercent": "gpu_memory",
    "SMActive": "gpu_sm_active",
    "Power": "gpu_power",
    "Temperature": "gpu_temperature",
    "Slowdown": "gpu_slowdown",
    "PCIeReplays": "gpu_replays",
    "ECCUncorrectable": "gpu_errors",
    "RowsUncorrectable": "gpu_errors",
    "RowsPending": "gpu_errors",
    "XID": "gpu_errors",
    "Lost": "gpu_errors",
    "cpu/CPUUtilization": "cpu",
    "cpu/busiest": "cpu_busiest",
    "cpu/I/OWaitPercentage": "cpu_wait",
    "cpu/StealPercentage": "cpu_steal",
    "memory/MemoryUsedPercent": "memory",
    "process/rss": "process_memory",
    "process/cpu": "process_cpu",
    "process/workers": "process_workers",
    "process/runqueue": "process_runqueue",
    "cgroup/CPUUtilization": "cgroup_cpu",
    "cgroup/throttled": "cgroup_throttled",
    "i/o/IOPS": "disk_operations",
    "i/o/ReadThroughputInBytesPerSecond": "disk_read",
    "i/o/WriteThroughputInBytesPerSecond": "disk_write",
    "network/ReceiveBytesPerSecond": "network_receive",
    "network/TransmitBytesPerSecond": "network_transmit",
    "cpu/cores": "cpu_cores",
    "loader/workers": "loader_workers",
}
"""The kind of a series by its name, without the GPU's number. Rules select by it."""

_INLINE = frozenset(
    {"gpu_utilization", "gpu_memory_activity", "cpu", "cpu_busiest", "cpu_wait", "loader_workers"}
)
_RARE = frozenset({"gpu_errors", "gpu_replays"})  # written only when there is one
_GPU = re.compile(r"gpu\d+/")
_STEPS = frozenset({Mode.TRAIN.name, Mode.EVAL.name, Mode.PREDICT.name})


@dataclass(frozen=True)
class Minute:
    """The measurements of one minute of a node, or of a part of one.

    seconds: how long was measured.
    series: the samples by the name of the series, one for each tick; NaN where there is none.
    durations: seconds by series of the hook (``TRAIN``, ``wait`` …). Empty: steps are not timed.
    missed: ticks without a sample.
    """

    seconds: float = 60.0
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    durations: Mapping[str, Sequence[float]] = field(default_factory=dict)
    missed: int = 0


def entries(minute: Minute) -> list[Captured]:
    """Return the minute as tensors that are known by their summaries, some with inline samples."""
    measured = TensorSummary(size=minute.missed, max=round(minute.seconds, 3))
    length = Captured("machine/minute", None, (1,), "float32", Role.SYSTEM, "minute", measured)
    return [length, *_system(minute.series), *_durations(minute.durations)]


def _system(series: Mapping[str, Sequence[float]]) -> Iterator[Captured]:
    for name, samples in series.items():
        ticks = np.asarray(samples, np.float64)
        known = ticks[np.isfinite(ticks)]
        kind = KINDS.get(_GPU.sub("", name, count=1), "other")
        if known.size == 0 or (kind in _RARE and not known.any()):
            continue
        quantiles = _QUANTILES if kind in _INLINE else ()
        yield Captured(
            name,
            shape=ticks.shape,
            dtype="float16",
            role=Role.SYSTEM,
            kind=kind,
            summary=_summary(known, quantiles, variance=False),
            inline=_thinned(ticks).astype(np.float16) if kind in _INLINE else None,
        )


def _durations(durations: Mapping[str, Sequence[float]]) -> Iterator[Captured]:
    """Return the durations of training steps always (none is a finding, too), others where there
    are any."""
    for name, seconds in durations.items():
        known = np.asarray(seconds, np.float64)
        if known.size == 0 and name != Mode.TRAIN.name:
            continue
        every = -(-known.size // _MOST_DURATIONS) or 1
        step = name in _STEPS
        yield Captured(
            f"step/{name}",
            shape=known.shape,
            dtype="float16",
            role=Role.DURATION,
            kind=("step" if name == Mode.TRAIN.name else "other_step") if step else name,
            summary=_summary(known, _QUANTILES, variance=True),
            inline=known[::every].astype(np.float16) if name == Mode.TRAIN.name else None,
        )


def _summary(known: NDArray[Any], quantiles: Sequence[float], *, variance: bool) -> TensorSummary:
    if known.size == 0:
        return TensorSummary(size=0)
    values = np.quantile(known, quantiles) if quantiles else ()
    return TensorSummary(
        size=known.size,
        min=_rounded(known.min()),
        max=_rounded(known.max()),
        mean=_rounded(known.mean()),
        variance=_rounded(known.var()) if variance else None,
        quantiles={str(q): _rounded(v) for q, v in zip(quantiles, values, strict=True)} or None,
    )


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def _thinned(ticks: NDArray[Any]) -> NDArray[Any]:
    """Reduce samples to a number by means of neighbours; NaN if one is missing."""
    together = -(-ticks.size // _MOST_SAMPLES)
    if together <= 1:
        return ticks
    whole = np.pad(ticks, (0, -ticks.size % together), constant_values=np.nan)
    means: NDArray[Any] = whole.reshape(-1, together).mean(axis=1)
    return means
