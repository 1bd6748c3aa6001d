"""Counts the samples in which all GPUs of a machine idle while a core is above a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Verdict
from tocsin.rules._rule import State, Step, Tensor
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation, worst_verdict
from tocsin.rules.machine._machine import MOST_WORKERS, by_worker, none_of

Counts = Mapping[str, int]
"""Of a machine since its first minute: ``points``, ``low`` (its GPUs idle), ``found``."""


def judged(
    state: State, step: Step, limits: tuple[float, float, float], patience: int, what: str
) -> tuple[State, Verdict]:
    """Judge the reads ``gpu`` and ``core`` of a step.

    ``limits``: the share in %, the GPUs' threshold, the core's. ``what`` the core does.
    """
    share, gpu_limit, core_limit = limits
    cores = by_worker(step.tensors["core"])
    found: dict[str, Counts] = dict(state)
    verdicts: list[Verdict] = []
    for worker, gpus in by_worker(step.tensors["gpu"]).items():
        if worker not in cores or (worker not in found and len(found) >= MOST_WORKERS):
            continue
        counts = _added(found.get(worker, {}), gpus, cores[worker][0], gpu_limit, core_limit)
        if counts is None:
            continue
        found[worker] = counts
        if counts["points"] <= patience:
            continue
        percent = 100.0 * counts["found"] / counts["points"]
        verdict = HEALTHY
        if percent > share:
            detail = (
                f"in {percent:.0f} % of {counts['points']} samples, a core of {worker} {what} "
                f"while all {len(gpus)} GPUs were below {gpu_limit:g} %"
            )
            evidence = {"share": round(percent, 1), **counts}
            verdict = violation(Reason.ABOVE_THRESHOLD, detail, gpus[0], **evidence)
        verdicts.append(measured(verdict, percent, share))
    if not verdicts:
        return found, UNDECIDED if found else none_of("utilization of a GPU with that of a core")
    return found, worst_verdict(verdicts)


def _added(
    counts: Counts, gpus: Sequence[Tensor], core: Tensor, gpu_limit: float, core_limit: float
) -> Counts | None:
    """The counts with those of a minute; None if it has no samples of both."""
    known = [found for gpu in gpus if (found := _ticks(gpu)) is not None]
    cores = _ticks(core)
    if not known or cores is None or any(found.shape != cores.shape for found in known):
        return None
    busiest = np.max(np.stack(known), axis=0)  # a GPU's missed sample is no sample of the machine
    there = np.isfinite(busiest) & np.isfinite(cores)
    low = there & (busiest < gpu_limit)
    both = low & (cores > core_limit)
    new = {"points": there, "low": low, "found": both}
    return {name: counts.get(name, 0) + int(ticks.sum()) for name, ticks in new.items()}


def _ticks(tensor: Tensor) -> NDArray[np.float64] | None:
    if tensor.value is None or tensor.value.dtype.kind not in "biuf":
        return None
    return tensor.value.reshape(-1).astype(np.float64)
