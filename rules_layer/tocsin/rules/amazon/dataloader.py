from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, SAGEMAKER, Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation, worst_verdict
from tocsin.rules.machine._machine import (
    MINUTE,
    MOST_WORKERS,
    by_worker,
    durations,
    none_of,
    samples,
    seconds_by_worker,
    system,
    total,
)

_MOST_SECONDS = 1000  # of a window, in which Amazon's rule counts
_NO_WAIT = 0.05  # of the time


@register
@dataclass(frozen=True)
class Dataloader(Rule):
    """The number of data loader workers does not fit the cores of the machine.

    Amazon's rule, for existing configurations, and only for PyTorch in files of Amazon's profiler;
    InputBottleneck judges how long the training waits for data, in any framework. Fires if the
    number of active loader processes, as the median of the last 1,000 seconds with activity, is
    below ``min_threshold`` % or above ``max_threshold`` % of the cores, after more than
    ``patience`` seconds. Does not fire in a minute in which the training waits for data at most 5 %
    of the time: one worker may be enough.

    Parameters
    ----------
    min_threshold: smallest number of active workers, in % of the cores.
    max_threshold: largest number of active workers, in % of the cores.
    patience: number of seconds with an active loader before the first verdict.

    Example: one worker on a machine with 8 cores.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    causes: ClassVar[str] = (
        "num_workers=0, the default of PyTorch, or many more than there are cores."
    )
    advice: ClassVar[str] = "Set num_workers of the DataLoader to about the number of cores."

    min_threshold: Annotated[float, Meta(ge=0)] = 70.0
    max_threshold: Annotated[float, Meta(ge=0)] = 200.0
    patience: Annotated[int, Meta(ge=0)] = 10

    def reads(self) -> Reads:
        return Reads(
            {
                "workers": system("loader_workers", values=True),
                "cores": system("cpu_cores"),
                "wait": durations("wait"),
                "minute": MINUTE,
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        cores, waits = by_worker(step.tensors["cores"]), by_worker(step.tensors["wait"])
        lengths = seconds_by_worker(step)
        found: dict[str, Sequence[Mapping[str, int]]] = dict(state)
        verdicts: list[Verdict] = []
        for tensor in step.tensors["workers"]:
            node, new = tensor.worker, samples(tensor)
            full = node not in found and len(found) >= MOST_WORKERS
            if new is None or node not in cores or full:
                continue
            found[node] = _kept([*found.get(node, ()), Counter(str(int(n)) for n in new)])
            counts: Counter[int] = Counter()
            for minute in found[node]:
                counts.update({int(workers): seconds for workers, seconds in minute.items()})
            if counts.total() > self.patience:
                share = (
                    total(waits[node]) / lengths[node]
                    if node in waits and node in lengths
                    else None
                )
                number = cores[node][0].summary.mean or 0.0
                verdicts.append(self._judged(tensor, _median(counts), number, share))
        if not found:
            return state, none_of("data loader with its workers")
        return found, worst_verdict(verdicts) if verdicts else UNDECIDED

    def _judged(self, tensor: Tensor, workers: int, cores: float, wait: float | None) -> Verdict:
        least, most = (cores * each / 100 for each in (self.min_threshold, self.max_threshold))
        few, many = workers < least, workers > most
        if not (few or many) or (wait is not None and wait <= _NO_WAIT):
            return HEALTHY
        detail = f"{workers} loader workers on the {cores:g} cores of {tensor.worker}"
        evidence: dict[str, Any] = {"workers": workers, "cores": cores}
        if wait is not None:
            evidence["wait_share"] = round(wait, 3)
            detail = f"{detail}; the training waits for data {100 * wait:.0f} % of the time"
        reason = Reason.BELOW_THRESHOLD if few else Reason.ABOVE_THRESHOLD
        fault = violation(reason, detail, tensor, **evidence)
        return measured(fault, workers, *((least, "below") if few else (most, "above")))


def _kept(minutes: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Return the last minutes that cover the judged seconds."""
    kept: list[dict[str, int]] = []
    seconds = 0
    for minute in reversed(minutes):
        if seconds >= _MOST_SECONDS:
            break
        kept.insert(0, dict(minute))
        seconds += sum(minute.values())
    return kept


def _median(counts: Counter[int]) -> int:
    """The median of the seconds' numbers of workers, without its fraction."""
    ordered = sorted(counts.elements())
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
