from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import PROFILES, Meta, Reads, Rule, State, Step, register
from tocsin.rules._series import Direction
from tocsin.rules._train_eval import ENOUGH, FinishedEvaluation, has_pair, metric_value
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.evaluation._evaluations import evaluation_reads, follow_evaluations

_WRONG = re.compile(r"(?i)(?<![a-z])m?error(?![a-z])")


@register
@dataclass(frozen=True)
class Overfit(Rule):
    """The training loss keeps falling while the evaluation loss rises.

    Fires when in ``patience`` consecutive evaluations validation loss is above the training loss of
    the same name by ``ratio_threshold``, and above its own best by ``least_rise`` and its noise.
    Training loss must have fallen by 5 % since that best. Evaluations must also have lost
    ``least_rise`` of their advantage over a constant prediction, or over the untrained model, and
    most of their scores, such as an accuracy, must not be clearly better than at the best loss. A
    loss that was best in the first evaluation and rose in each of the last five is enough on its
    own. Takes medians of three evaluations, or means of fifteen where single ones are noisy, and
    waits for the fifth; an error rate must have fallen clearly at least once.

    Profile ``sagemaker`` is Amazon's documented rule: (validation − training) / training above
    ``ratio_threshold`` is enough. An evaluation is the EVAL steps between two training steps, or
    one round of XGBoost. A loss counts as validation by its name (``validation-``, ``val_``,
    ``eval-``, ``test-`` …) or as training (``train-``), and otherwise by the mode of its step.

    Parameters
    ----------
    tensor_regex: which tensors to compare, instead of losses and of metrics named like one.
    patience: number of consecutive evaluations that must show it.
    ratio_threshold: largest (validation − training) / training, a fraction.
    least_rise: least rise of the validation loss from its best, as a fraction of its fall from the
        first evaluation to that best. If it hardly fell, the rise must be as large as the fall and
        15 % of the best. A rise by three quarters of the best is always enough. None: no rise is
        needed.
    direction: ``falls`` or ``rises``, for metrics named by ``tensor_regex``; none decides by their
        names.

    Example: training loss 0.5, 0.3, 0.1, 0.05, 0.02 with validation loss 0.6, 0.5, 0.6, 0.8, 0.9.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {"patience": 1, "least_rise": None, "start_step": 0}
    causes: ClassVar[str] = (
        "The model has too many parameters for the training data, or sees the data too often."
    )
    advice: ClassVar[str] = (
        "Stop earlier and keep the best model checkpoint, add data or augmentation, or regularise: "
        "weight decay, dropout, a smaller model, shallower trees."
    )

    tensor_regex: tuple[str, ...] = ()
    patience: Annotated[int, Meta(ge=1)] = 3
    ratio_threshold: Annotated[float, Meta(ge=0)] = 0.1
    least_rise: Annotated[float, Meta(ge=0)] | None = 0.2
    direction: Direction | None = None

    def reads(self) -> Reads:
        return evaluation_reads(self.tensor_regex)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        seen = follow_evaluations(
            state, step, self.tensor_regex, self.direction, with_start=self.least_rise is not None
        )
        finished = tuple(each for each in seen.finished if each.train is not None)
        streaks = dict(state.get("streaks", {}))
        for now in finished:
            loses = self._loses(seen.lost(now)) and not seen.improves(now)
            overfits = self._overfits(now) and (now.always_rose or loses)
            streaks[now.name] = streaks.get(now.name, 0) + 1 if overfits else 0
        state = {**seen.state, "streaks": streaks}
        if not has_pair(seen.followed):
            return state, not_applicable(
                Reason.NO_TENSOR, "no training loss and validation loss of the same name"
            )
        shown = [each for each in finished if streaks[each.name] >= self.patience]
        if shown:
            return state, self._found(max(shown, key=_gap))
        early = self.least_rise is not None and any(each.count < ENOUGH for each in finished)
        if early or not finished or any(streaks.values()):
            return state, UNDECIDED
        return state, measured(HEALTHY, max(map(_gap, finished)), self.ratio_threshold)

    def _overfits(self, now: FinishedEvaluation) -> bool:
        if self.least_rise is None:
            return _gap(now) > self.ratio_threshold
        if now.count < ENOUGH or now.train_level is None:
            return False
        fell = -now.train_rise > 0.05 * abs(now.train_level - now.train_rise)
        apart = _ratio(now.level, now.train_level) > self.ratio_threshold
        above = _ratio(now.level, now.best) > self.ratio_threshold
        if _WRONG.search(now.name) and not now.improved:
            return False
        rose = now.rose(self.least_rise) or now.always_rose
        return fell and apart and above and rose

    def _loses(self, lost: float | None) -> bool:
        return self.least_rise is None or lost is None or lost >= self.least_rise

    def _found(self, now: FinishedEvaluation) -> Verdict:
        validation, train, best = (
            metric_value(cost, now.name, self.direction)
            for cost in (now.cost, now.train or 0.0, now.best)
        )
        detail = (
            f"{now.name} is {validation:.3g} with a training loss of {train:.3g}; "
            f"its best was {best:.3g}"
        )
        evidence = {"validation": validation, "training": train, "best": best, "ratio": _gap(now)}
        found = violation(Reason.INCREASING, detail, now.tensor, **evidence)
        return measured(found, _gap(now), self.ratio_threshold, name="ratio")


def _gap(now: FinishedEvaluation) -> float:
    return _ratio(now.cost, now.train or 0.0)


def _ratio(cost: float, to: float) -> float:
    """Return by which fraction a cost is above another; infinity if the other is 0."""
    if to:
        return (cost - to) / abs(to)
    return math.copysign(math.inf, cost) if cost else 0.0
