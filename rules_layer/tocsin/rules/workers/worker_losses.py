from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import LOSSES, TRAINING
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.skill._pairing import SKILLS, LossSite, added, bounds, has_proof, percent, recent

_BLOCKS = 16  # of comparisons, for each worker
_ENOUGH = 24  # comparisons
_WORKERS = 64  # more are not compared with each other
_LARGEST = 1e100  # sums of larger losses are not finite

_Losses = Mapping[str, tuple[NDArray[np.float64], Tensor]]
"""The losses of each worker since the last save."""


@register
@dataclass(frozen=True)
class WorkerLosses(Rule):
    """The loss of one worker is higher than that of all others.

    Workers of a data-parallel training have the same weights and draw batches from the same data,
    so the loss of each should be above the mean of the others in about half of the steps. Fires
    when over the last half of all saves one worker is above the others too often for chance, and
    its mean excess, as a share of the larger loss, is above ``gap`` with 99.9 % confidence.
    Compares every step where the hook provides the loss of every step, and the saved steps
    otherwise. Do not use this rule if workers have different kinds of data by design.

    Parameters
    ----------
    gap: mean excess over the other workers, as a share of the worker's own loss.

    Example: one of four workers reads shuffled labels, and its loss stays at 2.3 while that of the
    others falls to 0.4.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 2}
    causes: ClassVar[str] = (
        "One worker reads different data: a damaged or unshuffled shard, labels of other samples, "
        "another preprocessing; or its device computes wrongly."
    )
    advice: ClassVar[str] = (
        "Compare a batch of this worker with one of another worker, and evaluate both with the "
        "same weights."
    )

    gap: Annotated[float, Meta(gt=0, lt=1)] = 0.2

    def reads(self) -> Reads:
        return Reads({"skills": SKILLS, "losses": LOSSES}, peers=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        found = _of_each_step(step.tensors["skills"]) or _of_saved_step(step.tensors["losses"])
        if not found:
            return state, not_applicable(Reason.NO_TENSOR, "no loss that two workers share")
        if state and set(state) != set(found):
            return state, UNDECIDED  # a worker is missing
        total = np.sum([losses for losses, _ in found.values()], axis=0)
        after, above, gaps = {}, [], []
        for worker, (own, tensor) in found.items():
            shares = _differences(own, (total - own) / (len(found) - 1))
            site = LossSite(worker, tensor, tuple(shares.tolist()), (), 0, None)
            after[worker] = added(state.get(worker, {}), site, step.mode_step, most=_BLOCKS)
            half = recent(after[worker], 0.5)
            within = bounds(half)
            gaps.append(within.mean if within else 0.0)
            if within and within.low > 0 and within.mean > self.gap and has_proof(half):
                above.append((within.mean, tensor))
        n = after[next(iter(after))]["n"]
        if n < _ENOUGH:
            return after, UNDECIDED
        if not above:
            return after, measured(HEALTHY, max(gaps), self.gap)
        gap, worst = max(above, key=lambda each: each[0])
        detail = (
            f"the loss of {worst.worker} is {percent(gap)} above that of the other workers in the "
            f"last half of the run ({n} comparisons)"
        )
        fault = violation(Reason.DIFFERENT, detail, worst, gap=gap, comparisons=n)
        return after, measured(fault, gap, self.gap)


def _differences(own: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative differences between a worker's losses and the others', as shares of the
    larger of both.
    """
    larger = np.maximum(np.abs(own), np.abs(others))
    return np.clip((own - others) / np.where(larger > 0, larger, 1.0), -1.0, 1.0)


def _of_each_step(tensors: Iterable[Tensor]) -> _Losses:
    """Return the losses of every step, where the hook hands them over."""
    return _shared(
        (tensor, tensor.value[:, 0].astype(np.float64))
        for tensor in tensors
        if tensor.value is not None and tensor.value.dtype.kind == "f" and tensor.value.ndim == 2
    )


def _of_saved_step(tensors: Iterable[Tensor]) -> _Losses:
    means = ((tensor, tensor.summary.mean) for tensor in tensors)
    return _shared((tensor, np.array([mean])) for tensor, mean in means if mean is not None)


def _shared(losses: Iterable[tuple[Tensor, NDArray[np.float64]]]) -> _Losses:
    """Return the first losses that several workers have, of equally many steps."""
    named: dict[str, dict[str, tuple[NDArray[np.float64], Tensor]]] = {}
    for tensor, found in losses:
        if len(found) and np.isfinite(found).all() and np.abs(found).max() < _LARGEST:
            named.setdefault(tensor.name, {})[tensor.worker] = found, tensor
    for each in named.values():
        sizes = {len(found) for found, _ in each.values()}
        if 1 < len(each) <= _WORKERS and len(sizes) == 1:
            return each
    return {}
