"""The sections of Amazon's ProfilerReport for a machine run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tocsin.profile import BUSY_CORE, WAITING_CORE, NodeUsage, box, statistics, usage_of
from tocsin.report.machine_parts import Bottleneck, Box, JobTimes, NodeStatistic, Profile
from tocsin.report.parts import Bars
from tocsin.report.thin import digit, digits
from tocsin.tensors import IndexFile

_BINS = np.arange(0.0, 101.0, 5.0)
_MOST_NODES = 32
_MOST_BOXES = 256
_MOST_CHARTS = 32
_MB = 1e-6

Usage = Mapping[str, NodeUsage]


def profile_of(minutes: Sequence[IndexFile]) -> Profile:
    """Return the sections that follow from the minutes of a run's machines; of the first 32 by
    name."""
    usage = dict(list(usage_of(minutes).items())[:_MOST_NODES])
    return Profile(
        job=_job(usage),
        usage=[*_usage(usage)],
        boxes=[*_boxes(usage)][:_MOST_BOXES],
        workloads=[*_workloads(usage)][:_MOST_CHARTS],
        bottlenecks=[*_bottlenecks(usage)],
    )


def _job(usage: Usage) -> JobTimes | None:
    """Seconds before, in and after the training loop; None without a training step."""
    times = [node.times for node in usage.values() if node.times.size]
    loops = [node.loop for node in usage.values() if node.loop is not None]
    if not loops:
        return None
    begin, end = min(each[0] for each in loops), max(each[1] for each in loops)
    first = min([begin, *(float(each[0]) for each in times)])
    last = max([end, *(float(each[-1]) for each in times)])
    return JobTimes(round(begin - first, 3), round(end - begin, 3), round(last - end, 3))


def _usage(usage: Usage) -> Iterator[NodeStatistic]:
    for name, node in usage.items():
        for resource, unit, values in (
            ("GPU", "%", node.over_gpus()),
            ("GPU memory read or written", "%", node.over_gpus("_memory")),
            ("CPU", "%", node.series.get("cpu", np.empty(0))),
            ("CPU memory", "%", node.means["memory"]),
            ("network", "MB/s", node.means["network"] * _MB),
            ("I/O wait", "%", node.series.get("wait", np.empty(0))),
        ):
            if found := statistics(values):
                numbers = {key: digit(value) for key, value in found.items()}
                yield NodeStatistic(name, resource, unit, **numbers)


def _boxes(usage: Usage) -> Iterator[Box]:
    for name, node in usage.items():
        names = [*node.gpus, *(f"{gpu}_memory" for gpu in node.gpus), "cpu", "busiest"]
        for series in names:
            if series in node.series and (found := box(node.series[series])):
                numbers = {key: digit(value) for key, value in found.items()}
                yield Box(name, series.replace("_", " "), **numbers)


def _workloads(usage: Usage) -> Iterator[Bars]:
    """Return how the samples of each GPU are distributed, on nodes with several."""
    names = [f"{edge:.0f}" for edge in _BINS[:-1]]
    for name, node in usage.items():
        if len(node.gpus) < 2:
            continue
        for gpu in node.gpus:
            counts, _ = np.histogram(node.series[gpu][np.isfinite(node.series[gpu])], _BINS)
            title = f"{name}, {gpu}: samples by utilization in %"
            yield Bars(title, names, {"samples": digits(counts.astype(np.float64))})


def _bottlenecks(usage: Usage) -> Iterator[Bottleneck]:
    """Shares of the samples, where there is a GPU."""
    for name, node in usage.items():
        if not node.gpus:
            continue
        busy = node.idle & node.core_above("busiest", BUSY_CORE)
        waiting = node.idle & node.core_above("wait", WAITING_CORE)
        shares = (digit(float(each.mean())) or 0.0 for each in (node.idle, busy, waiting))
        yield Bottleneck(name, *shares)
