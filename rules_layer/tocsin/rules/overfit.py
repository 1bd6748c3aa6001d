"""Overfit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    PROFILES,
    UNDECIDED,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
    register,
    violation,
)
from tocsin.rules._series import Direction
from tocsin.rules._train_eval import (
    ENOUGH,
    Evaluation,
    as_saved,
    follow,
    losses_among,
    losses_of,
    paired,
)


@register
@dataclass(frozen=True)
class Overfit(Rule):
    """The model fits its training data better and better, and new data worse.

    At the end of every evaluation it compares the mean of a validation loss with the mean of the
    training loss of that name since the evaluation before. Fires when (validation − training) /
    training is above ``ratio_threshold`` in ``patience`` evaluations in a row.

    Most good models have such a gap, so profile ``recommended`` demands two things more: the
    validation loss has risen from its best, by ``least_rise``, by ``ratio_threshold``, and clearly
    beyond its noise; and the training loss has fallen by 5 % since then. It takes medians
    of three evaluations and waits for the fifth. Plateaus, noise, restarts of the learning rate
    and divergence are not overfitting.

    Profile ``sagemaker`` is Amazon's documented rule. The documents do not say how steps pair or
    which steps a mean is over; here an evaluation is the EVAL steps between two steps of training,
    or one step of XGBoost, and ``patience`` counts evaluations in a row.

    The name of a loss says whether it is a validation loss (``validation-``, ``val_``, ``eval-``,
    ``test-`` …) or a training loss (``train-``), else the mode of its step.

    Parameters
    ----------
    tensor_regex: which tensors to compare, instead of losses and of metrics named like one.
    patience: how many evaluations in a row must show it.
    ratio_threshold: largest (validation − training) / training, a fraction.
    least_rise: least rise of the validation loss from its best, as a fraction of its fall from
        the first evaluation to that best (if it did not fall, half of the best); twice the best
        is enough. None demands no rise.
    direction: falls or rises, for metrics named by ``tensor_regex``; none goes by their names.

    Example: training loss 0.5, 0.3, 0.1, 0.05, 0.02 with validation loss 0.6, 0.5, 0.6, 0.8, 0.9.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {"patience": 1, "least_rise": None, "start_step": 0}
    causes: ClassVar[str] = (
        "The model has more parameters than the training data can determine, or sees it too often."
    )
    advice: ClassVar[str] = (
        "Stop earlier and keep the best checkpoint, add data or augmentation, or regularise: "
        "weight decay, dropout, a smaller model, shallower trees."
    )

    tensor_regex: tuple[str, ...] = ()
    patience: Annotated[int, Meta(ge=1)] = 3
    ratio_threshold: Annotated[float, Meta(ge=0)] = 0.1
    least_rise: Annotated[float, Meta(ge=0)] | None = 0.2
    direction: Direction | None = None

    def reads(self) -> Reads:
        return Reads({"losses": losses_of(self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        losses = losses_among(step.tensors["losses"], self.tensor_regex)
        followed, over, _ = follow(state.get("losses", {}), step, losses, self.direction)
        over = tuple(evaluation for evaluation in over if evaluation.train is not None)
        streaks = dict(state.get("streaks", {}))
        for evaluation in over:
            longer = streaks.get(evaluation.name, 0) + 1
            streaks[evaluation.name] = longer if self._overfits(evaluation) else 0
        state = {"losses": followed, "streaks": streaks}
        if not paired(followed):
            return state, not_applicable(
                Reason.NO_TENSOR, "no training loss with a validation loss of that name beside it"
            )
        shown = [each for each in over if streaks[each.name] >= self.patience]
        if shown:
            return state, self._found(max(shown, key=_gap))
        early = self.least_rise is not None and any(each.count < ENOUGH for each in over)
        return state, UNDECIDED if early or not over or any(streaks.values()) else HEALTHY

    def _overfits(self, now: Evaluation) -> bool:
        if self.least_rise is None:
            return _gap(now) > self.ratio_threshold
        if now.count < ENOUGH or now.train_level is None:
            return False
        fell = -now.train_rise > 0.05 * abs(now.train_level - now.train_rise)
        apart = _ratio(now.level, now.train_level) > self.ratio_threshold
        above = _ratio(now.level, now.best) > self.ratio_threshold
        return fell and apart and above and now.rose(self.least_rise)

    def _found(self, now: Evaluation) -> Verdict:
        validation, train, best = (
            as_saved(cost, now.name, self.direction)
            for cost in (now.cost, now.train or 0.0, now.best)
        )
        detail = (
            f"{now.name} is {validation:.3g} with a training loss of {train:.3g}; "
            f"its best was {best:.3g}"
        )
        evidence = {"validation": validation, "training": train, "best": best, "ratio": _gap(now)}
        return violation(Reason.INCREASING, detail, now.tensor, **evidence)


def _gap(now: Evaluation) -> float:
    return _ratio(now.cost, now.train or 0.0)


def _ratio(cost: float, to: float) -> float:
    """The fraction by which a cost is above another; infinite above 0."""
    if to:
        return (cost - to) / abs(to)
    return math.copysign(math.inf, cost) if cost else 0.0
