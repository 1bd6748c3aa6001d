from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._advice import SMALLER_ETA
from tocsin.rules._curve import Memory, curve, with_cost
from tocsin.rules._series import Direction, Point, measured_cost
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, violation
from tocsin.rules._window import rounded
from tocsin.rules.loss._losses import judge_all_losses, loss_reads


@register
@dataclass(frozen=True)
class LossSpike(Rule):
    """The loss has jumped far above all earlier values.

    The level of a training loss is the median of the ``window`` saves before. Fires when a save is
    above it by more than ``ratio - 1`` times the level, ``z`` times the median absolute deviation
    of those saves, and ``record`` times the distance from the level to the highest loss so far. The
    last condition separates a bad batch from the noise of small batches and from restarts of the
    learning rate; set ``record`` to 0 for losses whose spikes stay below their start. A loss that
    was 0 in all earlier saves does not fire. ExplodingTensor reports a loss that is not finite.

    Fires, too, when at least ``share`` of the last 1,000 steps are spikes, saved or not, in at
    least four windows of 50 steps. A spike is a loss above ten times the largest upper quartile of
    64 consecutive steps before.

    Parameters
    ----------
    window: the level is the median of this many saves.
    ratio: a loss above this multiple of the level is too large.
    z: least jump, in median absolute deviations.
    record: least jump, as a multiple of the distance from the level to the highest loss so far.
    share: smallest share of steps with a spike that is too large.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: ``falls`` or ``rises`` says which way is good; none decides by the name (accuracy
        rises).

    Example: a loss that started at 2.3, has fallen to 0.3, and is 40 at one save.
    """

    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "A batch with corrupt or mislabelled samples, a learning rate or loss scale at the edge of"
        " stability, or a model checkpoint that was restored only in part."
    )
    advice: ClassVar[str] = (
        "Look at the batch of this step and clip gradients. If the losses stay high afterwards, go"
        " back to an earlier model checkpoint."
    )
    advice_for_trees: ClassVar[str] = SMALLER_ETA

    window: Annotated[int, Meta(ge=8, le=48)] = 12
    ratio: Annotated[float, Meta(gt=1)] = 3.0
    z: Annotated[float, Meta(ge=0)] = 10.0
    record: Annotated[float, Meta(ge=0)] = 6.0
    share: Annotated[float, Meta(gt=0, le=1)] = 0.01
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        return loss_reads(self, between=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return judge_all_losses(self, state, step, self._remembered, self._judge)

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        if (number := rounded(cost)) is None:
            return memory or {"last": [], "highest": None}
        highest = memory.get("highest")
        after = with_cost(memory, cost, 0, self.window)
        return {**after, "highest": number if highest is None else max(number, highest)}

    def _judge(self, before: State, _: State, point: Point) -> Verdict:
        memory = before.get(point.key, {})
        past = curve(memory)
        begins = memory.get("highest") == 0 and not any(past.last)
        if len(past.last) < self.window or begins or not math.isfinite(point.cost):
            return UNDECIDED
        usual = past.now
        jump = point.cost - usual
        least = max(
            (self.ratio - 1) * abs(usual),
            self.z * past.noise,
            self.record * (memory["highest"] - usual),
        )
        limit = usual + least
        if jump <= least:
            return measured_cost(HEALTHY, point, point.cost, limit)
        sign = -1.0 if point.rises else 1.0
        usual, highest = sign * usual, sign * memory["highest"]
        detail = f"{point.tensor.name} jumped to {point.value:.3g} from a level of {usual:.3g}"
        evidence = {"loss": point.value, "level": usual, "worst_before": highest}
        found = violation(Reason.ABOVE_THRESHOLD, detail, point.tensor, **evidence)
        return measured_cost(found, point, point.cost, limit)
