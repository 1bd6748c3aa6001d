from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import LOSSES
from tocsin.rules._spikes import GRADIENTS_BETWEEN, with_spikes, without_spikes
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.gradients._updates import OBJECTIVES, gradient_norms, layers, total_loss

_FEWEST = 5  # saves before judging
_WINDOW = 16  # saves that a save is compared with
_LITTLE = 0.1  # of all that losses have changed
_NOW = 3  # saves whose median is the loss of now


@register
@dataclass(frozen=True)
class GradientExplosion(Rule):
    """Gradients have become far larger than before, and the loss does not improve.

    The sensitivity of the loss is the sum over a worker's weights of weight norm × gradient norm,
    relative to the loss or to the range of all losses so far; parts that are not captured are left
    out. Fires when it is at least ``ratio`` times its median over the last 16 saves, or ``ratio``
    squared times that of the first five, and the loss does not improve, in three consecutive saves
    in profile ``recommended``. The loss does not improve if the median of the last three is not
    lower, and above the best by more than a tenth of the range of all losses. Exploded saves do not
    enter the median, so a lasting explosion stays reported. ExplodingTensor reports gradients that
    are not finite.

    Fires, too, when at least ``share`` of the last 1,000 steps are spikes, whether they are saved
    or not, in at least four windows of 50 steps. A spike is a gradient norm, relative to the loss,
    above 30 times the median of the 64 steps before.

    Parameters
    ----------
    ratio: smallest multiple of the median that counts as an explosion.
    share: smallest share of steps with a spike that counts as an explosion.
    threshold: gradient norms from this value on are always too large; none: no such limit.
    collection_names, tensor_regex: which tensors to watch instead of those with role gradient.

    Example: a norm of about 2 that becomes 300, 4000 and 50000 while the loss rises.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3, "resolve": 5}
    causes: ClassVar[str] = (
        "Each layer, or each step of a recurrence, multiplies the gradient by weights that have "
        "become too large. Or too high a learning rate has moved the weights to a steep region of "
        "the loss."
    )
    advice: ClassVar[str] = (
        "Clip gradients by their norm, lower the learning rate or warm it up, and use "
        "normalisation layers or gated recurrent units."
    )

    ratio: Annotated[float, Meta(gt=1)] = 30.0
    share: Annotated[float, Meta(gt=0, le=1)] = 0.005
    threshold: Annotated[float, Meta(gt=0)] | None = None
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        read = Read(roles=(Role.GRADIENT,), fields=("l2",))
        return Reads(
            {
                "gradients": read.explicitly(self.collection_names, self.tensor_regex),
                "weights": Read(roles=(Role.WEIGHT,), fields=("l2",)),
                "losses": LOSSES,
                "objectives": OBJECTIVES,
                "between": GRADIENTS_BETWEEN,
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        saves, verdict = self._judge_save(without_spikes(state), step)
        after, spikes = with_spikes(state, saves, step)
        if spikes is None or verdict.violation:
            return after, verdict
        return after, spikes.verdict(self.share, "a gradient far above those before") or verdict

    def _judge_save(self, state: State, step: Step) -> tuple[State, Verdict]:
        norms = [
            _norm(list(tensors))
            for _, tensors in groupby(step.tensors["gradients"], lambda tensor: tensor.worker)
        ]
        worst = max((found for found in norms if found), default=None, key=lambda found: found[0])
        if worst is None:
            return state, not_applicable(Reason.NO_TENSOR, "no gradient with a finite norm")
        norm, tensor = worst
        if self.threshold is not None and norm >= self.threshold:
            detail = f"the gradient norm is {norm:.3g}, above the limit of {self.threshold:g}"
            found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, norm=norm)
            return state, measured(found, norm, self.threshold)
        weights = [each for each in step.tensors["weights"] if each.worker == tensor.worker]
        loss = total_loss(step)
        if loss is not None and not math.isfinite(loss):
            loss = None
        after, scale = _with_loss(state, loss)
        trained = layers(step, weights, gradient_norms(step))
        reach = sum(gradient * size for gradient, _, size in trained)
        now = (reach or norm) / scale
        known = f"{reach > 0} {loss is not None}"
        before = state.get("past", []) if state.get("known") == known else []
        past = [*before, float(f"{now:.5g}")][-_WINDOW:] if 0 < now < math.inf else before
        begun = state.get("begun", past) if before else past
        begun = past if len(begun) < _FEWEST else begun
        after |= {"known": known, "past": before, "begun": begun}
        if len(before) < _FEWEST:
            return {**after, "past": past}, UNDECIDED
        usual, since = median(before), f"in the {len(before)} saves before"
        times = now / usual
        if (slowly := self.ratio * median(begun)) < usual:  # it grew save by save
            usual, since, times = slowly, "at the start", now / median(begun)
        large = now >= self.ratio * usual and not _loses_little(after)
        if not large:
            after["past"] = past
        if not large or _improves(after["losses"]):
            return after, measured(HEALTHY, now / usual, self.ratio)
        detail = (
            f"the gradients are {times:.3g} times as large as {since}, with a norm of {norm:.3g}, "
            f"and the loss does not improve; {tensor.name} has the largest share"
        )
        evidence = {"growth": now / usual, "norm": norm, "limit": self.ratio}
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return after, measured(found, now / usual, self.ratio)


def _with_loss(state: State, loss: float | None) -> tuple[dict[str, Any], float]:
    """The state with a loss, and what the gradients are a share of: 1 without a loss."""
    losses, least, most = state.get("losses", []), state.get("least"), state.get("most")
    if loss is None:
        return {"losses": losses, "least": least, "most": most}, 1.0
    loss = float(f"{loss:.6g}")
    least = loss if least is None else min(least, loss)
    most = loss if most is None else max(most, loss)
    losses = [*losses, loss][-_WINDOW - 1 :]
    return {"losses": losses, "least": least, "most": most}, max(abs(loss), most - least) or 1.0


def _improves(losses: list[float]) -> bool:
    return len(losses) > _NOW and median(losses[-_NOW:]) < median(losses[:-_NOW])


def _loses_little(state: State) -> bool:
    losses, least, most = state["losses"], state["least"], state["most"]
    if not losses or least == most:
        return False
    return bool(median(losses[-_NOW:]) - least < _LITTLE * (most - least))


def _norm(tensors: list[Tensor]) -> tuple[float, Tensor] | None:
    """Return the norm of all these tensors, and the one with the largest share."""
    parts = [(tensor.summary.l2, tensor) for tensor in tensors if tensor.summary.l2 is not None]
    if not parts:
        return None
    _, largest = max(parts, key=lambda part: part[0])
    return math.hypot(*(part for part, _ in parts)), largest
