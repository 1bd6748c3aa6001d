from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import classify_loss, read_losses, select_losses
from tocsin.rules._train_eval import FinishedEvaluation, follow_losses
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import rounded

_EQUAL = 1e-4  # of a loss: updates change it by more
_VARIES = 0.01  # of a training loss, by which its saves differ at least
_NOTHING = 1e-3  # of the first loss: there is nothing left to learn
_ERRORS = re.compile(r"(?<![a-z])m?error(?![a-z])")  # their shares are equal by chance

_Memory = Mapping[str, Any]
"""The memory of a validation loss: its ``cost`` in an evaluation; ``same``, those since then that
were equal to it, and ``since``, its training step. That of a training loss has its first value, and
the lowest and highest since then."""


@register
@dataclass(frozen=True)
class EvaluationUnchanged(Rule):
    """Evaluation loss repeats, although the model is trained.

    Fires when ``evaluations`` consecutive evaluations, and half of all evaluations so far, had the
    same loss as an earlier one, to four digits. Between them there must be ``steps`` training steps
    with varying loss. So the model does not change: its learning rate is 0, its gradients have
    vanished, or the optimizer or the evaluation uses another model. Ignores losses that have fallen
    to a thousandth, error rates, and logs whose training losses have at most three digits.

    Parameters
    ----------
    evaluations: number of consecutive evaluations with the same loss as an earlier one.
    steps: training steps from that evaluation to the last of these.

    Example: `optimizer.step()` updates a copy of the model, and val_loss is 0.69315 each time.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "The schedule has reduced the learning rate to 0, for example because it counts epochs but"
        " is stepped per batch; gradients are 0; or the optimizer or the evaluation uses another "
        "model."
    )
    advice: ClassVar[str] = (
        "Print the learning rate, the gradient norm and one weight at two steps. The first of them"
        " that does not change shows where to look."
    )

    evaluations: Annotated[int, Meta(ge=2)] = 4
    steps: Annotated[int, Meta(ge=1)] = 100

    def reads(self) -> Reads:
        return Reads({"losses": read_losses(())})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        losses, kinds = with_level(select_losses(step.tensors["losses"], ()), named=False)
        if step.tensors["losses"] and not losses:
            return state, not_applicable(Reason.NO_TENSOR, f"a loss that is {kinds}")
        losses = tuple([each for each in losses if not _ERRORS.search(each.name)])
        followed, finished, trained = follow_losses(state.get("followed", {}), step, losses, None)
        now = step.mode_step if step.mode is not Mode.EVAL else state.get("now", 0)
        ranges: dict[str, Any] = dict(state.get("ranges", {}))
        exact = state.get("exact", False)
        for point in trained:
            base, cost = classify_loss(step.mode, point.tensor)[1], rounded(point.cost)
            if cost is not None:
                exact = exact or not _is_rounded(cost)
                first, low, high = ranges.get(base, (cost, None, None))
                low, high = (cost, cost) if low is None else (min(low, cost), max(high, cost))
                ranges[base] = [first, low, high]
        memories: dict[str, _Memory] = dict(state.get("memories", {}))
        for each in finished:
            base = followed["eval"][each.name]["base"]
            memories[each.name] = memory = _added(memories.get(each.name, {}), each, now)
            if not memory["same"] and base in ranges:
                ranges[base] = [ranges[base][0], None, None]
        state = {
            "followed": followed,
            "now": now,
            "exact": exact,
            "ranges": ranges,
            "memories": memories,
        }
        if not followed["eval"]:
            return state, not_applicable(Reason.NO_TENSOR, "no evaluation loss")
        if not finished or not exact:
            return state, UNDECIDED
        verdicts = (
            self._verdict(each, memories[each.name], now, ranges.get(_base(followed, each)))
            for each in finished
        )
        return state, worst_verdict(verdicts)

    def _verdict(
        self, now: FinishedEvaluation, memory: _Memory, step: int, trained: Any
    ) -> Verdict:
        same: int = memory["same"]
        healthy = measured(HEALTHY, float(same), float(self.evaluations))
        if same < self.evaluations or 2 * (same + 1) < now.count or trained is None:
            return healthy
        first, low, high = trained
        if low is None:
            return UNDECIDED
        varies = high - low > _VARIES * max(abs(low), abs(high))
        if not varies or step - memory["since"] < self.steps:
            return UNDECIDED
        if abs(now.cost) <= _NOTHING * abs(now.first) or abs(high) <= _NOTHING * abs(first):
            return healthy
        detail = (
            f"{now.name} is {now.cost:.5g} again, as in the {same} evaluations before, while "
            f"training loss varies from {low:.3g} to {high:.3g}: the model does not change"
        )
        found = violation(Reason.CONSTANT, detail, now.tensor, evaluations=same, loss=now.cost)
        return measured(found, float(same), float(self.evaluations))


def _base(followed: State, evaluation: FinishedEvaluation) -> str:
    base: str = followed["eval"][evaluation.name]["base"]
    return base


def _is_rounded(cost: float) -> bool:
    """Return whether a loss has three digits or less: a log that rounds all of them hides what
    changes."""
    return math.isclose(cost, float(f"{cost:.3g}"), rel_tol=1e-6)


def _added(memory: _Memory, now: FinishedEvaluation, step: int) -> _Memory:
    before = memory.get("cost")
    same = before is not None and abs(now.cost - before) <= _EQUAL * abs(before)
    if not same:
        return {"cost": now.cost, "same": 0, "since": step}
    return {**memory, "same": memory["same"] + 1}
