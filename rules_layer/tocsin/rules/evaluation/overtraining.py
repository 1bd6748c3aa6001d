from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import PROFILES, Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import Direction
from tocsin.rules._train_eval import ENOUGH, FinishedEvaluation, metric_value
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.evaluation._evaluations import evaluation_reads, follow_evaluations

Mark = tuple[float, int]  # the best so far, and the number of stalled saves in a row since


@register
@dataclass(frozen=True)
class Overtraining(Rule):
    """The training continues although the model was better before.

    Fires when a validation loss had improved by a fifth of its best, and has since been above that
    best for ``patience_validation`` consecutive evaluations. It must be above by more than its
    noise, and by ``least_rise`` of its improvement and of its advantage over a constant prediction
    or the untrained model. Takes medians of three evaluations, and waits for the fifth. A loss that
    levels off has converged and does not fire; nor does one whose training loss rises by half as
    much, since then the training diverges or has a new learning rate. Does not fire while most
    scores of the evaluations, such as an accuracy, are clearly better than at the best loss. The
    name is that of Rauschmayr et al., "Amazon SageMaker Debugger", MLSys 2021, table 1.

    Profile ``sagemaker`` is Amazon's documented rule, which fires on every run that has converged:
    no new best, by ``delta``, for ``patience_train`` saves of a training loss or for
    ``patience_validation`` evaluations. The documents do not say whether both must stall; here one
    is enough. An evaluation is the EVAL steps between two training steps, or one round of XGBoost.

    Parameters
    ----------
    patience_train: saves of a training loss without a new best; none: no limit.
    patience_validation: number of consecutive evaluations.
    delta: least improvement to a new best, and least rise, in units of the loss.
    least_rise: rise of a validation loss from its best, as a fraction of its fall from the first
        evaluation to that best. A rise by three quarters of the best is enough. None: fires
        without a new best.
    tensor_regex: which tensors to follow, instead of losses and of metrics named like one.
    direction: ``falls`` or ``rises``, for metrics named by ``tensor_regex``; none decides by their
        names.

    Example: a validation loss is 2.0, 1.0, 0.6, and then at least 1.1 for five evaluations.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "patience_train": 5,
        "patience_validation": 10,
        "delta": 0.01,
        "least_rise": None,
    }
    causes: ClassVar[str] = (
        "The training is longer than the data supports, or the learning rate stays too high."
    )
    advice: ClassVar[str] = (
        "Use the model checkpoint of the best evaluation, stop there the next time (early "
        "stopping), or let the learning rate decay sooner."
    )

    patience_train: Annotated[int, Meta(ge=1)] | None = None
    patience_validation: Annotated[int, Meta(ge=1)] = 5
    delta: Annotated[float, Meta(ge=0)] = 0.0
    least_rise: Annotated[float, Meta(ge=0)] | None = 0.2
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        return evaluation_reads(self.tensor_regex)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        seen = follow_evaluations(
            state, step, self.tensor_regex, self.direction, with_start=self.least_rise is not None
        )
        marks: dict[str, Mark] = dict(state.get("marks", {}))
        found = []
        for now in seen.finished:
            lost = 0.0 if seen.improves(now) else seen.lost(now)
            marks[now.name] = self._evaluated(marks.get(now.name), now, lost)
            best, stalled = marks[now.name]
            if stalled >= self.patience_validation:
                patience = self.patience_validation
                found.append(self._found(now.tensor, now.cost, best, stalled, patience))
        patience = self.patience_train or 0
        for point in seen.trained if patience else ():
            marks[point.key] = best, stalled = self._since_best(marks.get(point.key), point.cost)
            if stalled >= patience:
                found.append(self._found(point.tensor, point.cost, best, stalled, patience))
        state = {**seen.state, "marks": marks}
        if found:
            return state, max(found, key=lambda verdict: verdict.evidence["stalled"])
        if not marks and not seen.followed["eval"]:
            return state, not_applicable(Reason.NO_TENSOR, "no validation loss so far")
        early = self.least_rise is not None and any(now.count < ENOUGH for now in seen.finished)
        waits = any(stalled for _, stalled in marks.values())
        judged = seen.finished or (seen.trained and patience)
        if not judged or early or waits:
            return state, UNDECIDED
        return state, measured(HEALTHY, 0, self.patience_validation)

    def _evaluated(self, mark: Mark | None, now: FinishedEvaluation, lost: float | None) -> Mark:
        if self.least_rise is None:
            return self._since_best(mark, now.cost)
        worse = self._worse(now, self.least_rise) and (lost is None or lost >= self.least_rise)
        return now.best, mark[1] + 1 if mark and worse else 0

    def _since_best(self, mark: Mark | None, cost: float) -> Mark:
        if mark is None or cost < mark[0] - self.delta:
            return cost, 0
        return mark[0], mark[1] + 1

    def _worse(self, now: FinishedEvaluation, least_rise: float) -> bool:
        if now.count < ENOUGH or not now.improved or not now.rose(least_rise):
            return False
        rise = now.level - now.best
        return rise > self.delta and now.train_rise < rise / 2

    def _found(
        self, tensor: Tensor, cost: float, best: float, stalled: int, patience: int
    ) -> Verdict:
        now, best = (metric_value(each, tensor.name, self.direction) for each in (cost, best))
        evidence = {"now": now, "best": best, "stalled": stalled}
        detail = f"{tensor.name} is {now:.3g}; its best was {best:.3g}, "
        if self.least_rise is None:
            detail += f"not improved by {self.delta:g} in {stalled} saves since"
            found = violation(Reason.NOT_DECREASING, detail, tensor, **evidence)
            return measured(found, stalled, patience, name="stalled")
        detail += f"and the last {stalled} evaluations were clearly worse"
        found = violation(Reason.INCREASING, detail, tensor, **evidence)
        return measured(found, stalled, patience, name="stalled")
