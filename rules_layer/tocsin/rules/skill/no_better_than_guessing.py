from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import SCORES, Mode, Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import LOSSES
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.skill._classes import worker_batches
from tocsin.rules.skill._constant_guess import judge_constant_guess
from tocsin.rules.skill._guess_of_classes import GRADIENTS, judge_classes
from tocsin.rules.skill._pairing import SKILLS, percent
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
from tocsin.rules.skill._skill import (
    ScoredBatch,
    add_batch,
    balanced_skill,
    errors_and_baseline,
    score_batch,
    skill,
)

_RECENT = 5  # batches for one skill
_IN_A_ROW = 2  # batches without skill
_HISTORY = 32  # skills in the memory; if there are more, every other one is dropped

_OUTPUT = re.compile(r"_output_\w+$")  # of a model, by PyTorch's hook

# Metrics of rankings, whose scores have no level to compare with labels.
_RANKING = re.compile(r"(?<![a-z])(map|mrr|ndcg)(?![a-z])")


@register
@dataclass(frozen=True)
class NoBetterThanGuessing(Rule):
    """The model is no better than always predicting the mean or the most frequent class.

    The skill is the share of the errors of the best constant prediction that the model avoids: for
    numbers R², for classes the larger of that by accuracy and that by cross-entropy. Fires when the
    skill of the last five batches is below ``least_skill``, has grown by less than ``progress`` in
    the second half of all, and balanced accuracy shows none either. Where the hook computes the
    loss of the best constant prediction, that decides instead. It fires if the loss was not below
    it in the last half of the saves, or in three evaluations, hardly depends on the labels, and is
    not about to fall below it. That needs 300 training steps, or 150 if the loss is 3 % higher, or
    200 if it is three times as high even while it falls. Ignores rankings, whose scores have no
    level.

    Without labels or predictions it judges what the script records, over the same numbers of saves.
    It fires for an accuracy that stays at chance, an area under the ROC curve that was never above
    0.5, or a cross-entropy that was never below the logarithm of the number of classes.

    Parameters
    ----------
    least_skill: 0 is the constant prediction, 1 is perfect.
    progress: least growth of the skill that counts as learning.
    evaluations: evaluation batches before judging.
    saves: training batches before judging.
    samples: samples of a mode before judging it.

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
    evaluations: Annotated[int, Meta(ge=_RECENT)] = 8
    saves: Annotated[int, Meta(ge=_RECENT)] = 30
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
        compared = state.get("compared")
        if compared is not None or any(each.summary.size for each in step.tensors["skills"]):
            compared, verdict = judge_constant_guess(compared or {}, step, step.tensors["skills"])
            return {"compared": compared}, verdict
        ranks = state.get("ranks", False) or any(
            _RANKING.search(m.name) for m in step.tensors["metrics"]
        )
        if ranks:
            return {"ranks": True}, not_applicable(Reason.NO_TENSOR, "predictions are ranks")
        found = next(_batches(step), None) if step.mode is not Mode.PREDICT else None
        if found is None:
            return self._by_metrics(state, step)
        tensor, batch = found
        key = Mode.EVAL.name if step.mode is Mode.EVAL else Mode.TRAIN.name
        memory = self._added(state.get(key, {}), batch)
        if memory is None:
            return state, not_applicable(Reason.NO_TENSOR, "labels of more than 100 classes")
        state = {**state, key: memory}
        now = memory["skills"][-1][1] if memory["skills"] else None
        if not self._is_known(key, memory) or now is None:
            return state, UNDECIDED
        healthy = measured(HEALTHY, now, self.least_skill, "below")
        before = _half_way(memory["skills"], memory["batches"])
        low = now < self.least_skill and max(now, 0.0) - max(before, 0.0) < self.progress
        low = low and balanced_skill(memory["past"]) < self.least_skill
        if not low or (key == Mode.TRAIN.name and self._evaluations_show_skill(state)):
            return _with(state, key, low=0), healthy
        state = _with(state, key, low=memory.get("low", 0) + 1)
        if state[key]["low"] < _IN_A_ROW:
            return state, UNDECIDED
        detail = (
            f"{tensor.name} avoids {percent(now)} of the errors of a constant prediction in {key} "
            f"({memory['batches']} batches), less than {100 * self.least_skill:g} %"
        )
        evidence = {"skill": now, "before": before, "batches": memory["batches"]}
        fault = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
        return state, measured(fault, now, self.least_skill, "below")

    def _by_metrics(self, state: State, step: Step) -> tuple[State, Verdict]:
        areas, verdict = judge_areas(state.get("areas", {}), step, self.evaluations)
        if verdict is not None and step.mode is not Mode.PREDICT:
            return {**state, "areas": areas}, verdict
        classes, by_classes = judge_classes(state.get("by_classes", {}), step)
        after, verdict = self._by_accuracy(state, step)
        if _is_judged_otherwise(after):
            return after, verdict
        after = {**after, "by_classes": classes} if "classes" in classes else after
        return after, verdict if by_classes is None or verdict.violation else by_classes

    def _by_accuracy(self, state: State, step: Step) -> tuple[State, Verdict]:
        """Judge a recorded accuracy, unless batches are judged."""
        point, classes = recorded_accuracy(step), number_of_classes(step.tensors["biases"])
        classes = state.get("classes", classes)
        batches = Mode.EVAL.name in state or Mode.TRAIN.name in state
        if point is None or batches or step.mode is Mode.PREDICT:
            missing = "no labels with predictions for each, and no accuracy"
            return state, not_applicable(Reason.NO_TENSOR, missing)
        evaluates = of_evaluation(step, point)
        enough = self.evaluations if evaluates else self.saves
        key = f"accuracy {'EVAL' if evaluates else 'TRAIN'}"
        memory, by_loss = classes_by_loss(state.get(key, {}), step, point)
        memory, verdict = judge_accuracy(memory, point, classes or by_loss, enough)
        return {**state, **({"classes": classes} if classes else {}), key: memory}, verdict

    def _is_known(self, mode: str, memory: Mapping[str, Any]) -> bool:
        enough = self.evaluations if mode == Mode.EVAL.name else self.saves
        samples: int = memory["past"]["samples"]
        return samples >= self.samples and bool(memory["batches"] >= enough)

    def _evaluations_show_skill(self, state: State) -> bool:
        memory = state.get(Mode.EVAL.name)
        if memory is None or not memory["skills"] or not self._is_known(Mode.EVAL.name, memory):
            return False
        skill: float = memory["skills"][-1][1]
        return skill >= self.least_skill

    def _added(self, memory: Mapping[str, Any], batch: ScoredBatch) -> dict[str, Any] | None:
        """Add a batch to the memory of a mode. Returns None if it cannot be added."""
        past = add_batch(memory.get("past", {}), batch)
        if past is None:
            return None
        recent = [*memory.get("recent", []), errors_and_baseline(past, batch)][-_RECENT:]
        batches = memory.get("batches", 0) + 1
        skills = memory.get("skills", [])
        if len(recent) == _RECENT and (now := skill(recent)) is not None:
            skills = _thinned([*skills, [batches, now]])
        return {**memory, "past": past, "recent": recent, "batches": batches, "skills": skills}


def _is_judged_otherwise(state: State) -> bool:
    """Return whether the run has batches, or an accuracy, which says more than the level of a
    loss."""
    modes = (Mode.EVAL.name, Mode.TRAIN.name)
    return any(key in state or f"accuracy {key}" in state for key in modes)


def _with(state: State, key: str, **changes: object) -> State:
    """Change what is kept of a mode."""
    return {**state, key: {**state[key], **changes}}


def _batches(step: Step) -> Iterator[tuple[Tensor, ScoredBatch]]:
    """Yield each worker's predictions, compared with their labels.

    Numbers that a model gives are such predictions only if a loss compares them with the labels:
    else they may be ranks, or logarithms. Labels that are all alike may be no labels, but what
    another model is to take for real, or not.
    """
    predictions = [each for each in step.tensors["predictions"] if each.kind != SCORES]
    for label, values, predicted in worker_batches(step.tensors["labels"], predictions):
        alike = values.size > 1 and bool((values == values.flat[0]).all())
        if predicted is None or alike or (batch := score_batch(values, predicted)) is None:
            continue
        tensor = next((each for each in predictions if each.value is predicted), label)
        if batch.counts is not None or not _OUTPUT.search(tensor.name):
            yield tensor, batch


def _half_way(skills: Sequence[Sequence[float]], batches: int) -> float:
    """Return the skill when there were half as many batches, or the first known skill."""
    earlier = [number for at, number in skills if at <= max(batches / 2, skills[0][0])]
    return earlier[-1]


def _thinned(skills: list[list[float]]) -> list[list[float]]:
    """Drop every other skill if there are too many, but keeps the last."""
    return skills if len(skills) <= _HISTORY else [*skills[:-1:2], skills[-1]]
