from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, register
from tocsin.rules._series import LOSSES
from tocsin.rules._verdicts import not_applicable
from tocsin.rules.skill._batches import (
    MODES,
    TOGETHER,
    Needed,
    has_batches,
    judge_batch,
    scored_batches,
)
from tocsin.rules.skill._constant_guess import judge_constant_guess
from tocsin.rules.skill._guess_of_classes import GRADIENTS, judge_classes
from tocsin.rules.skill._pairing import SKILLS
from tocsin.rules.skill._recorded_accuracy import (
    ACCURACIES,
    BIASES,
    classes_by_loss,
    judge_accuracy,
    number_of_classes,
    of_evaluation,
    recorded_accuracy,
)
from tocsin.rules.skill._recorded_area import judge_areas

# Metrics of rankings, whose scores have no level to compare with labels.
_RANKING = re.compile(r"(?<![a-z])(map|mrr|ndcg)(?![a-z])")


@register
@dataclass(frozen=True)
class NoBetterThanGuessing(Rule):
    """The model is no better than always predicting the mean or the most frequent class.

    The skill is the share of the errors of the best constant prediction that the model avoids: for
    numbers R², for classes the larger of that by accuracy and that by cross-entropy. Fires when the
    skill of the last five batches is below ``least_skill``, has grown by less than ``progress`` in
    the second half of all, and balanced accuracy shows no skill either. If the hook computes the
    loss of the best constant prediction, the rule compares the loss with that instead. It fires if
    all of these hold:

    * In the last half of the saves, or in three evaluations, the loss was not below that of the
      constant prediction.
    * It hardly depends on the labels.
    * Its trend does not cross that line soon.

    That needs 300 training steps, or 150 if the loss is 3 % higher, or 200 if it is three times as
    high even while it falls. Ignores rankings: their scores cannot be compared with labels.

    Without labels or predictions it judges what the script records, over the same numbers of saves.
    It fires for an accuracy that stays at chance, and an area under the ROC curve that was never
    above 0.5. It also fires if a cross-entropy of evaluations, the mean of four saves, was never
    below the logarithm of the number of classes.

    Parameters
    ----------
    least_skill: 0 is the constant prediction, 1 is perfect.
    progress: least growth of the skill that counts as learning.
    evaluations: number of evaluation batches before the first verdict.
    saves: number of training batches before the first verdict.
    samples: number of samples of a mode before its first verdict.

    Example: the labels are shuffled, and after 16 evaluations R² is −0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 2}
    causes: ClassVar[str] = (
        "Inputs have the wrong labels, the inputs are damaged or do not determine the labels, the "
        "model cannot express the relation, or its updates do not lower the loss."
    )
    advice: ClassVar[str] = (
        "Check a few samples with their labels as the model receives them, then whether the model "
        "can overfit ten of them. If it can, look at the data and the regularisation; if not, at "
        "the learning rate, the loss and the gradients. Perhaps the data allows no better "
        "predictions."
    )

    least_skill: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    progress: Annotated[float, Meta(ge=0, extra={"infinite": True})] = 0.02
    evaluations: Annotated[int, Meta(ge=TOGETHER)] = 8
    saves: Annotated[int, Meta(ge=TOGETHER)] = 30
    samples: Annotated[int, Meta(ge=1)] = 64

    def reads(self) -> Reads:
        return Reads(
            {
                "labels": Read(roles=(Role.LABEL,), values=True),
                "predictions": Read(roles=(Role.PREDICTION,), values=True),
                "skills": SKILLS,
                "metrics": ACCURACIES,
                "losses": LOSSES,
                "biases": BIASES,
                "gradients": GRADIENTS,
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        """Judge by the best evidence that a run has: comparisons with a constant prediction, then
        labels with predictions, then what the script records."""
        compared, skills = state.get("compared"), step.tensors["skills"]
        if compared is not None or any(each.summary.size for each in skills):
            compared, verdict = judge_constant_guess(compared or {}, step, skills)
            return {"compared": compared}, verdict
        if state.get("ranks") or any(_RANKING.search(m.name) for m in step.tensors["metrics"]):
            return {"ranks": True}, not_applicable(Reason.NO_TENSOR, "predictions are ranks")
        if step.mode is Mode.PREDICT:
            return state, not_applicable(Reason.NO_TENSOR, "a step of mode PREDICT")
        if (found := next(scored_batches(step), None)) is not None:
            needed = Needed(
                {"EVAL": self.evaluations, "TRAIN": self.saves},
                self.samples,
                self.least_skill,
                self.progress,
            )
            return judge_batch(state, step, found, needed)
        areas, by_area = judge_areas(state.get("areas", {}), step, self.evaluations)
        if by_area is not None:
            return {**state, "areas": areas}, by_area
        classes, by_classes = judge_classes(state.get("by_classes", {}), step)
        after, verdict = self._by_accuracy(state, step)
        if has_batches(after) or any(f"accuracy {mode}" in after for mode in MODES):
            return after, verdict  # they say more than the level of a loss
        after = {**after, "by_classes": classes} if "classes" in classes else after
        return after, verdict if by_classes is None or verdict.violation else by_classes

    def _by_accuracy(self, state: State, step: Step) -> tuple[State, Verdict]:
        """Judge a recorded accuracy, unless batches are judged."""
        point, classes = recorded_accuracy(step), number_of_classes(step.tensors["biases"])
        classes = state.get("classes", classes)
        if point is None or has_batches(state):
            missing = "no labels with predictions for each, and no accuracy"
            return state, not_applicable(Reason.NO_TENSOR, missing)
        evaluates = of_evaluation(step, point)
        enough = self.evaluations if evaluates else self.saves
        key = f"accuracy {'EVAL' if evaluates else 'TRAIN'}"
        memory, by_loss = classes_by_loss(state.get(key, {}), step, point)
        memory, verdict = judge_accuracy(memory, point, classes or by_loss, enough)
        return {**state, **({"classes": classes} if classes else {}), key: memory}, verdict
