"""Shared parts of the rules about machines: minutes, as the hook writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._rule import Read, Step, Tensor
from tocsin.rules._verdicts import not_applicable

MOST_WORKERS = 256  # more are left out, so that states stay small
MOST_DEVICES = 1024  # more are left out, so that states stay small

STEPS = Read(roles=(Role.DURATION,), kinds=("step",), fields=("size", "mean"))
"""The training steps that ended in the minute: size 0 if there was none."""

OTHER_STEPS = Read(roles=(Role.DURATION,), kinds=("other_step",), fields=("size",))
MINUTE = Read(roles=(Role.SYSTEM,), kinds=("minute",), fields=("max",))
"""Return the number of measured seconds."""


def system(*kinds: str, fields: Sequence[str] = ("mean",), values: bool = False) -> Read:
    """Return a read of metrics of these kinds."""
    return Read(roles=(Role.SYSTEM,), kinds=kinds, fields=tuple(fields), values=values)


def durations(*kinds: str, values: bool = False) -> Read:
    """Return a read of durations of these kinds."""
    return Read(roles=(Role.DURATION,), kinds=kinds, fields=("size", "mean"), values=values)


def median_of(tensor: Tensor) -> float | None:
    """Return the median of a minute's durations; None if there was none."""
    if not tensor.summary.size:
        return None
    return (tensor.summary.quantiles or {}).get("0.5", tensor.summary.mean)


def by_worker(tensors: Iterable[Tensor]) -> dict[str, list[Tensor]]:
    """Return the tensors of each worker."""
    found: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.worker in found or len(found) < MOST_WORKERS:
            found.setdefault(tensor.worker, []).append(tensor)
    return found


def known(tensors: Iterable[Tensor], field: str) -> list[Tensor]:
    """Return the tensors whose summary has the field."""
    return [tensor for tensor in tensors if getattr(tensor.summary, field) is not None]


def timed(step: Step) -> list[Tensor]:
    """Return the training steps of the machines that time them."""
    return known(step.tensors["steps"], "size")


def trained(step: Step) -> bool:
    """Return whether a training step ended in this minute, or steps are not timed at all."""
    steps = timed(step)
    return not steps or any(tensor.summary.size for tensor in steps)


def samples(tensor: Tensor) -> NDArray[np.float64] | None:
    """Return the finite samples of a tensor; None if it has none."""
    if tensor.value is None or tensor.value.dtype.kind not in "biuf":
        return None
    numbers = tensor.value.reshape(-1).astype(np.float64)
    finite: NDArray[np.float64] = numbers[np.isfinite(numbers)]
    return finite if finite.size else None


def total(tensors: Iterable[Tensor]) -> float:
    """Return the sum of all durations in seconds."""
    return sum((t.summary.size or 0) * (t.summary.mean or 0.0) for t in tensors)


def mean(tensors: Iterable[Tensor]) -> float | None:
    """Return the mean of the means that are known."""
    known = [tensor.summary.mean for tensor in tensors if tensor.summary.mean is not None]
    return sum(known) / len(known) if known else None


def highest(tensors: Iterable[Tensor], field: str = "mean") -> float | None:
    """Return the largest of the values of a field that are known."""
    known = [value for t in tensors if (value := getattr(t.summary, field)) is not None]
    return max(known) if known else None


def seconds_by_worker(step: Step) -> Mapping[str, float]:
    """Return how many seconds each worker measured; none that measured nothing."""
    return {
        tensor.worker: seconds
        for tensor in step.tensors["minute"]
        if (seconds := tensor.summary.max) is not None and seconds > 0
    }


def device(tensor: Tensor) -> str:
    """Return the device of a metric: ``gpu0``."""
    return tensor.name.partition("/")[0]


def where(tensor: Tensor) -> str:
    """Name a device for people."""
    return f"{device(tensor)} of {tensor.worker}"


def none_of(what: str) -> Verdict:
    """Return the verdict that the minute has no data of the kind."""
    return not_applicable(Reason.NO_TENSOR, f"no {what} in the minute")
