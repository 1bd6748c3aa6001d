"""The JSON that Amazon's ProfilerReport wrote for each rule, from the minutes of a machine run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tocsin.model import Mode, RuleStatus
from tocsin.profile.usage import (
    BUSY_CORE,
    WAITING_CORE,
    NodeUsage,
    Numbers,
    box,
    statistics,
    usage_of,
)
from tocsin.tensors import IndexFile

Details = dict[str, Any]
Usage = Mapping[str, NodeUsage]

_WINDOW = 500  # samples
_GROWTH = 10  # samples that are compared with those before
_EDGES = np.arange(0.0, 99.0, 2.0)
_BINS = 100
_PHASE = "Step:ModeKeys."


def reports_of(
    minutes: Sequence[IndexFile], rules: Sequence[Mapping[str, Any]]
) -> dict[str, Details]:
    """Return the reports of Amazon's rules by name. ``rules``: those of a status document; the
    counts of one that is not among them are 0.

    ``RuleTriggered`` is 1 for a rule that fired: Amazon counted scans and devices.
    """
    usage = usage_of(minutes)
    known = {rule["Rule"]: rule for rule in rules}
    return {name: _report(known.get(name, {}), make(usage)) for name, make in _DETAILS.items()}


def _report(rule: Mapping[str, Any], details: Details) -> Details:
    parameters = rule.get("Parameters", {})
    fired = rule.get("RuleEvaluationStatus") == RuleStatus.ISSUES_FOUND
    return {
        "RuleTriggered": int(fired),
        "Violations": int(rule.get("Violations", 0)),
        "Details": details,
        "Datapoints": int(rule.get("DataPoints", 0)),
        "RuleParameters": "\n".join(f"{name}:{value}" for name, value in parameters.items()),
    }


def _last(usage: Usage) -> int | None:
    """The time of the last sample in µs since the epoch."""
    times = [float(node.times[-1]) for node in usage.values() if node.times.size]
    return round(max(times) * 1e6) if times else None


def _by_node(usage: Usage, of: Callable[[NodeUsage], Details]) -> Details:
    found = {name: details for name, node in usage.items() if (details := of(node))}
    return {**found, "last_timestamp": _last(usage)} if found else {}


def batch_size(usage: Usage) -> Details:
    """Return the boxes of processors, GPUs, and their memory being read or written, of each
    node."""

    def boxes(node: NodeUsage) -> Details:
        names = ["cpu", *(each for gpu in node.gpus for each in (gpu, f"{gpu}_memory"))]
        return {name: box(node.series[name]) for name in names if name in node.series}

    return _by_node(usage, boxes)


def low_gpu_utilization(usage: Usage) -> Details:
    def of(node: NodeUsage) -> Details:
        found = {}
        for gpu in node.gpus:
            known = _known(node.series[gpu])
            if known.size:
                window = known[-_WINDOW:]
                high, low = np.quantile(window, (0.95, 0.05))
                extremes = {"gpu_max": window.max(), "gpu_95": high, "gpu_5": low}
                found[gpu] = {name: float(v) for name, v in extremes.items()} | box(known)
        return found

    return _by_node(usage, of)


def gpu_memory_increase(usage: Usage) -> Details:
    def of(node: NodeUsage) -> Details:
        found = {}
        for gpu in node.gpus:
            known = _known(node.series.get(f"{gpu}_memory", np.empty(0)))
            if known.size:
                now, before = known[-_GROWTH:], known[-2 * _GROWTH : -_GROWTH]
                increase = float(now.mean() - before.mean()) if before.size else 0.0
                numbers = {"increase": increase, "gpu_max": float(known.max())}
                found[gpu] = numbers | {"p05": float(np.quantile(known, 0.05))} | box(known)
        return found

    return _by_node(usage, of)


def load_balancing(usage: Usage) -> Details:
    """Histograms of the utilization of each GPU, and the distances between those of a node."""
    found: Details = {}
    for name, node in usage.items():
        counts = {gpu: np.histogram(_known(node.series[gpu]), _EDGES)[0] for gpu in node.gpus}
        if counts:
            found[name] = {"workloads": {gpu: each.tolist() for gpu, each in counts.items()}}
            if len(counts) > 1:
                found[name]["distances"] = {
                    one: {two: distance(counts[one], counts[two]) for two in counts if two != one}
                    for one in counts
                }
    return found


def distance(one: Numbers, other: Numbers) -> float:
    """Return the square root of the Jensen-Shannon divergence of two histograms, with natural
    logarithms: from 0 to 0.83. 0 where one is empty.
    """
    if not one.sum() or not other.sum():
        return 0.0
    p, q = one / one.sum(), other / other.sum()
    mean = (p + q) / 2
    parts = [each[each > 0] @ np.log(each[each > 0] / mean[each > 0]) for each in (p, q)]
    return float(np.sqrt(max(0.0, sum(parts) / 2)))


def bottlenecks(usage: Usage, core: str, threshold: float) -> Details:
    """Return the samples at which a core is above the threshold and all GPUs are low, by their
    time."""
    low, found = 0, {}
    for node in usage.values():
        if not node.gpus or core not in node.series:
            continue
        low += int(node.idle.sum())
        for at in np.flatnonzero(node.idle & node.core_above(core, threshold)):
            found[f"{node.times[at]:.3f}"] = {"GPUs": len(node.gpus), "CPUs": 1}
    return {"low_gpu_utilization": low, "bottlenecks": found}


def max_initialization_time(usage: Usage) -> Details:
    """Times of the first and last sample in seconds, and in µs of the first and last minute with a
    training step: when each step began is not kept.
    """
    times = [node.times for node in usage.values() if node.times.size]
    if not times:
        return {"step_num": {}}
    loops = [node.loop for node in usage.values() if node.loop is not None]
    stepped = {}
    if loops:
        first_step, last_step = min(each[0] for each in loops), max(each[1] for each in loops)
        stepped = {"first": round(first_step * 1e6), "last": round(last_step * 1e6)}
    first, last = min(float(each[0]) for each in times), max(float(each[-1]) for each in times)
    return {"step_num": stepped, "job_start": first, "job_end": last}


def overall_system_usage(usage: Usage) -> Details:
    """Statistics of each resource of each node. I/O is the core that waits most for disks."""

    of: dict[str, Callable[[NodeUsage], Numbers]] = {
        "Network": lambda node: node.means["network"],
        "GPU": lambda node: node.over_gpus(),
        "CPU": lambda node: node.series.get("cpu", np.empty(0)),
        "CPU memory": lambda node: node.means["memory"],
        "GPU memory": lambda node: node.over_gpus("_memory"),
        "I/O": lambda node: node.series.get("wait", np.empty(0)),
    }
    return {
        resource: {
            name: {key: round(each, 2) for key, each in found.items()}
            for name, node in usage.items()
            if (found := statistics(values(node)))
        }
        for resource, values in of.items()
    }


def overall_framework_metrics(usage: Usage) -> Details:
    """Shares of the measured time in %, over all nodes: phases and the rest, and what is known of
    them.
    """
    length = sum(node.length for node in usage.values())
    spent = {
        name: sum(node.spent[name] for node in usage.values())
        for name in (Mode.TRAIN.name, Mode.EVAL.name, Mode.PREDICT.name, "forward", "wait")
    }
    if not length:
        return {}
    share = {name: 100 * seconds / length for name, seconds in spent.items()}
    modes = {
        f"{_PHASE}{name}": share[name]
        for name in share
        if name not in ("forward", "wait") and share[name]
    }
    general = {"Forward": share["forward"], "DataLoader": share["wait"]}
    return {
        "ratio": {},
        "phase": {**modes, "others": max(0.0, 100 - sum(modes.values()))},
        "phase_time": {},
        "general": {name: each for name, each in general.items() if each},
        "CPU": {},
        "CPU_total": 0,
        "GPU": {},
        "GPU_total": 0,
    }


def step_outlier(usage: Usage) -> Details:
    """Durations of training steps in seconds: outliers are more than three deviations above."""
    found: Details = {}
    for name, node in usage.items():
        durations = node.steps[Mode.TRAIN.name]
        if not durations.size:
            continue
        mean, deviation = float(durations.mean()), float(durations.std())
        outliers = np.flatnonzero(durations > mean + 3 * deviation) if deviation else np.empty(0)
        counts, edges = np.histogram(durations, _BINS)
        found[name] = {
            "step_stats": {"mean": mean, **statistics(durations)},
            "number_of_outliers": len(outliers),
            "phase": f"{_PHASE}{Mode.TRAIN.name}",
            "stddev": 3,
            "probs": counts.tolist(),
            "binedges": edges.tolist(),
            "step_numbers": [str(int(each)) for each in outliers[:1000]],
        }
    return {"step_details": found} if found else {}


def _known(values: Numbers) -> Numbers:
    return values[np.isfinite(values)]


_DETAILS: Mapping[str, Callable[[Usage], Details]] = {
    "BatchSize": batch_size,
    "CPUBottleneck": lambda usage: bottlenecks(usage, "busiest", BUSY_CORE),
    "Dataloader": lambda usage: {},  # minutes keep no events of loaders
    "GPUMemoryIncrease": gpu_memory_increase,
    "IOBottleneck": lambda usage: bottlenecks(usage, "wait", WAITING_CORE),
    "LoadBalancing": load_balancing,
    "LowGPUUtilization": low_gpu_utilization,
    "MaxInitializationTime": max_initialization_time,
    "OverallFrameworkMetrics": overall_framework_metrics,
    "OverallSystemUsage": overall_system_usage,
    "StepOutlier": step_outlier,
}

REPORTED = tuple(_DETAILS)
"""Amazon's rules that have a report."""
