"""NoBetterThanGuessing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

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
    not_applicable,
    register,
    violation,
)
from tocsin.rules._classes import of_workers
from tocsin.rules._skill import Scored, compared, remembered, scored, skill

_RECENT = 5  # batches over which the skill is taken
_HISTORY = 32  # earlier skills that are remembered; every other one is dropped beyond


@register
@dataclass(frozen=True)
class NoBetterThanGuessing(Rule):
    """The model is no better than always predicting the mean or the most frequent class.

    Its skill is the part of the errors of the best constant guess that predictions avoid. For
    numbers it is R². For classes it is the larger of accuracy's ((accuracy − share of the most
    frequent class) / (1 − share)) and cross-entropy's (1 − cross-entropy / entropy of the labels),
    so neither rare classes nor too much confidence look like ignorance. Fires when the skill of the
    last five batches is below ``least_skill`` and has grown by less than ``progress`` since half as
    many batches (below 0 counts as 0), so a model that learns slowly does not fire.

    Judges evaluations if there are labels and predictions in EVAL, after ``evaluations`` of them;
    else training, after ``saves``. Not applicable to labels other than one number or class for
    each sample, and to more than 100 classes.

    Parameters
    ----------
    least_skill: 0 is the constant guess, 1 is perfect.
    progress: least growth of the skill that counts as learning.
    evaluations: EVAL batches before judging.
    saves: TRAIN batches before judging where there is no EVAL.

    Example: labels were shuffled, and 16 evaluations later R² is −0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2}
    causes: ClassVar[str] = (
        "Labels do not belong to their inputs, the inputs do not determine the labels or arrive "
        "damaged, the model cannot express the relation, or its updates lead nowhere."
    )
    advice: ClassVar[str] = (
        "Check a few samples with their labels as the model receives them, then whether the model "
        "can overfit ten of them. If it can, the cause is the data or the regularisation; if not, "
        "look at the learning rate, the loss and the gradients. The data may also not allow more."
    )

    least_skill: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    progress: Annotated[float, Meta(ge=0, extra={"infinite": True})] = 0.02
    evaluations: Annotated[int, Meta(ge=_RECENT)] = 8
    saves: Annotated[int, Meta(ge=_RECENT)] = 30

    def reads(self) -> Reads:
        return Reads(
            {
                "labels": Read(roles=(Role.LABEL,), values=True),
                "predictions": Read(roles=(Role.PREDICTION,), values=True),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        found = next(_batches(step), None) if step.mode is not Mode.PREDICT else None
        if found is None:
            return state, not_applicable(Reason.NO_TENSOR, "no labels with predictions for each")
        tensor, batch = found
        key = Mode.EVAL.name if step.mode is Mode.EVAL else Mode.TRAIN.name
        memory = self._added(state.get(key, {}), batch)
        if memory is None:
            return state, not_applicable(Reason.NO_TENSOR, "labels of more than 100 classes")
        state = {**state, key: memory}
        if key == Mode.TRAIN.name and Mode.EVAL.name in state:
            return state, UNDECIDED
        enough = self.evaluations if key == Mode.EVAL.name else self.saves
        now = memory["skills"][-1][1] if memory["skills"] else None
        if memory["batches"] < enough or now is None:
            return state, UNDECIDED
        before = _half_way(memory["skills"], memory["batches"])
        if now >= self.least_skill or max(now, 0.0) - max(before, 0.0) >= self.progress:
            return state, HEALTHY
        detail = (
            f"{tensor.name} avoids {100 * now:.2g} % of the errors of a constant guess in {key} "
            f"after {memory['batches']} batches, less than {100 * self.least_skill:g} %"
        )
        evidence = {"skill": now, "before": before, "batches": memory["batches"]}
        return state, violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)

    def _added(self, memory: Mapping[str, Any], batch: Scored) -> dict[str, Any] | None:
        """The memory of a mode with one more batch; None if it cannot be added."""
        past = remembered(memory.get("past", {}), batch)
        if past is None:
            return None
        recent = [*memory.get("recent", []), compared(past, batch)][-_RECENT:]
        batches = memory.get("batches", 0) + 1
        skills = memory.get("skills", [])
        if len(recent) == _RECENT and (now := skill(recent)) is not None:
            skills = _thinned([*skills, [batches, now]])
        return {"past": past, "recent": recent, "batches": batches, "skills": skills}


def _batches(step: Step) -> Iterator[tuple[Tensor, Scored]]:
    """Yields each worker's predictions, compared with their labels."""
    predictions = step.tensors["predictions"]
    for label, values, predicted in of_workers(step.tensors["labels"], predictions):
        if predicted is not None and (batch := scored(values, predicted)) is not None:
            named = (each for each in predictions if each.value is predicted)
            yield next(named, label), batch


def _half_way(skills: Sequence[Sequence[float]], batches: int) -> float:
    """The skill when there were half as many batches, or the first that is known."""
    earlier = [number for at, number in skills if at <= max(batches / 2, skills[0][0])]
    return earlier[-1]


def _thinned(skills: list[list[float]]) -> list[list[float]]:
    """The skills, without every other one if there are too many; the newest stays."""
    return skills if len(skills) <= _HISTORY else [*skills[:-1:2], skills[-1]]
