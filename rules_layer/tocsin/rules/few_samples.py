from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode, Reason, Role, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    register,
    violation,
)
from tocsin.rules._kinds import with_level
from tocsin.rules._train_eval import follow_losses, read_losses, select_losses

_HEAD = 3  # numbers before the hashes: of steps, of samples, and of elements in one
_KEPT = 64  # hashes
_DIGITS = 7  # of a hash: the last ones may differ from batch to batch
_COVERED = 5  # times: so often all samples that there are were drawn, before they are counted
_ELEMENTS = 8  # of a sample: fewer are a point, and a few points may be all there is to learn
_WORSE = 0.5  # by which the loss of EVAL is larger, as a share of that of TRAIN

SAMPLES = Read(roles=(Role.SAMPLE,), values=True)
"""Reads of each save the number of steps and samples, of elements in one, and small hashes."""


@register
@dataclass(frozen=True)
class FewSamples(Rule):
    """The model sees the same few samples again and again.

    The hook saves hashes of the samples that the model is trained on; the smallest of them show
    how many different samples there are, to a tenth. Fires when these are at most ``most`` and
    each was seen ``times`` times. Evaluations that do about as well as training resolve it: their
    loss is less than half above that of training. Does not judge samples of less than eight
    numbers, as points of a curve, nor models that act. Samples that are augmented are different.

    Parameters
    ----------
    most: different samples that are too few.
    times: how often each was seen.

    Example: the batch is drawn with a generator that is seeded again in each step, so that all
    steps train on the same 32 samples.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "A seed is set again in each step, an index stays where it is, a filter or a subset for a "
        "quick trial was left in place; or there are really so few samples."
    )
    advice: ClassVar[str] = (
        "Print the length of the data set, and look at the indices of a few batches. If there are "
        "no more samples, evaluate on others, and use augmentation or a smaller model."
    )

    most: Annotated[int, Meta(ge=1)] = 100
    times: Annotated[int, Meta(ge=2)] = 20

    def reads(self) -> Reads:
        return Reads({"samples": SAMPLES, "losses": read_losses(())})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        all_losses = select_losses(step.tensors["losses"], ())
        losses, kinds = with_level(all_losses, named=False)
        followed, finished, _ = follow_losses(state.get("losses", {}), step, losses, None)
        state = {**state, "losses": followed}
        for each in finished:
            state = {**state, "held": (each.level, each.train_level)}
        saved = step.tensors["samples"]
        batches = [value for each in saved if _is_batch(value := each.value)]
        if step.mode in (Mode.EVAL, Mode.PREDICT) or not batches:
            return state, not_applicable(Reason.NO_TENSOR, "no hashes of samples of training")
        if all_losses and not losses:
            return state, not_applicable(Reason.NO_TENSOR, f"a loss that is {kinds}")
        state = {**state, "seen": _added(state.get("seen", {}), batches)}
        return state, self._judged(state, step.mode_step, saved[0])

    def _judged(self, state: State, now: int, tensor: Tensor) -> Verdict:
        seen = state["seen"]
        cut = seen["up_to"] < 1
        different = (len(seen["hashes"]) - cut) / (seen["up_to"] or 1.0)
        if not different or seen["elements"] < _ELEMENTS:
            return UNDECIDED
        healthy = measured(HEALTHY, different, self.most, "below")
        if different <= self.most and seen["drawn"] < _COVERED * different:
            return UNDECIDED
        steps = max(now, seen["steps"] / seen["workers"])
        each = seen["drawn"] / seen["steps"] * seen["workers"] * steps / different
        if different > self.most or each < self.times or _is_as_good(state.get("held")):
            return healthy
        number = round(different)
        detail = (
            f"the model has seen {number} different sample{'s' if number > 1 else ''} in training, "
            f"each about {each:.0f} times"
        )
        evidence = {"different": number, "times": round(each)}
        found = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
        return measured(found, different, self.most, "below")


def _is_batch(value: NDArray[Any] | None) -> TypeGuard[NDArray[Any]]:
    if value is None or value.ndim != 1 or len(value) <= _HEAD or value.dtype.kind != "f":
        return False
    return bool(np.isfinite(value).all() and (value[:_HEAD] >= 1).all())


def _added(seen: Mapping[str, Any], batches: Sequence[NDArray[Any]]) -> Mapping[str, Any]:
    """Adds batches to what was seen: all hashes ``up_to`` a limit, and none above it."""
    for each in batches:
        steps, drawn, elements = (float(number) for number in each[:_HEAD])
        new = np.round(each[_HEAD:].astype(np.float64), _DIGITS)
        new = new[(new >= 0) & (new <= 1)]
        up_to = min(seen.get("up_to", 1.0), float(new.max()) if len(new) >= _KEPT else 1.0)
        hashes = sorted({*seen.get("hashes", ()), *new.tolist()})
        up_to = min(up_to, hashes[_KEPT - 1]) if len(hashes) >= _KEPT else up_to
        seen = {
            "steps": seen.get("steps", 0) + steps,
            "drawn": seen.get("drawn", 0) + drawn,
            "elements": max(elements, seen.get("elements", 0)),
            "workers": max(len(batches), seen.get("workers", 0)),
            "up_to": up_to,
            "hashes": hashes[: bisect_right(hashes, up_to)],
        }
    return seen


def _is_as_good(held: tuple[float, float | None] | None) -> bool:
    """Says whether evaluations do about as well as training."""
    evaluated, trained = held or (0.0, None)
    return trained is not None and evaluated - trained < _WORSE * abs(trained)
