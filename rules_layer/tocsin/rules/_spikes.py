"""The share of spikes among all steps of a training, from the summaries of its save intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._rule import Read, State, Step, Tensor
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import measured, violation

LOSSES_BETWEEN = Read(roles=(Role.INTERVAL,), kinds=("loss",), fields=("size", "max"))
GRADIENTS_BETWEEN = Read(roles=(Role.INTERVAL,), kinds=("gradient",), fields=("size", "max"))
"""Read the summaries of the losses, and of a gradient norm, of all steps since the save before."""

_STEPS = 1000  # latest steps that are judged together
_FEWEST = 200  # steps before judging: among fewer, two spikes would be enough
_BLOCK = 50  # steps that count as one window
_MOMENTS = 4  # windows with spikes: one odd window is not enough

_KEY = "between"


@dataclass(frozen=True)
class SpikeShare:
    """The spikes among the latest steps. ``latest`` is the summary that had the last one."""

    spikes: int
    steps: int
    moments: int
    latest: Tensor | None
    at: int | None

    def verdict(self, share: float, what: str) -> Verdict | None:
        """Return a violation if at least ``share`` of the steps are spikes, in several moments."""
        latest = self.latest
        often = self.steps >= _FEWEST and self.spikes >= share * self.steps
        if latest is None or not often or self.moments < _MOMENTS:
            return None
        last = f"; the latest is step {self.at}" if self.at is not None else ""
        detail = f"{self.spikes} of the last {self.steps} steps have {what}{last}"
        evidence = {"share": self.spikes / self.steps, "spikes": self.spikes, "steps": self.steps}
        if self.at is not None:
            evidence["spike_step"] = self.at
        found = violation(Reason.ABOVE_THRESHOLD, detail, latest, **evidence)
        return measured(found, self.spikes / self.steps, share)


def without_spikes(state: State) -> State:
    """Return the rest of a rule's state."""
    return {key: value for key, value in state.items() if key != _KEY}


def with_spikes(before: State, after: State, step: Step) -> tuple[State, SpikeShare | None]:
    """Add the summaries of a training step to a rule's state ``after`` it; None without any.

    Several workers and optimizers count together.
    """
    training = step.tensors.get("between", ()) if step.mode in TRAINING else ()
    tensors = [each for each in training if each.summary.size]
    memory: dict[str, Any] = {"blocks": [], "at": None, **before.get(_KEY, {})}
    if not tensors:
        return {**after, **({_KEY: before[_KEY]} if _KEY in before else {})}, None
    steps = sum(each.summary.size or 0 for each in tensors)
    spiky = [each for each in tensors if _spikes(each)]
    blocks = [[*each] for each in memory["blocks"]]
    if not blocks or blocks[-1][0] >= _BLOCK:
        blocks.append([0, 0])
    blocks[-1][0] += steps
    blocks[-1][1] += sum(map(_spikes, spiky))
    while sum(each[0] for each in blocks[1:]) >= _STEPS:
        del blocks[0]
    at = max((each.summary.max_step or 0 for each in spiky), default=memory["at"])
    share = SpikeShare(
        sum(each[1] for each in blocks),
        sum(each[0] for each in blocks),
        sum(each[1] > 0 for each in blocks),
        (spiky or tensors)[0],
        at,
    )
    return {**after, _KEY: {"blocks": blocks, "at": at}}, share


def _spikes(tensor: Tensor) -> int:
    bounds = tensor.summary.bounds
    return 0 if bounds is None else bounds.above
