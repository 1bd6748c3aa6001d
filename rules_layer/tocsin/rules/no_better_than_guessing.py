"""NoBetterThanGuessing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tocsin.model import Mode, Reason, Role, Verdict
from tocsin.rules._classes import of_workers
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    violation,
)
from tocsin.rules._skill import Scored, compared, remembered, scored, skill

_RECENT = 5  # batches that the skill is taken of
_HISTORY = 32  # earlier skills remembered, thinned out as they grow more


@register
@dataclass(frozen=True)
class NoBetterThanGuessing(Rule):
    """The model predicts no better than somebody who always says the same.

    Its skill is the part of the errors of the best constant guess that predictions avoid: of
    numbers R²; of classes, by accuracy ((accuracy − share of the commonest class) / (1 − share))
    or by cross-entropy (1 − cross-entropy / entropy of the labels), whichever is larger, so
    neither rare classes nor too much confidence look like ignorance. Fires when that of the last
    five batches is below ``least_skill`` and has grown by less than ``progress`` since half as
    many batches, what is below 0 taken as 0: who learns slowly is left alone.

    Judges evaluations if there are labels and predictions in EVAL, after ``evaluations`` of them;
    else training, after ``saves``. Not applicable to labels other than one number or class for
    each sample, and to more than 100 classes.

    Parameters
    ----------
    least_skill: above 0 and below 1; 0 is the constant guess, 1 is perfect.
    progress: least growth of the skill that counts as learning, at least 0.
    evaluations: EVAL batches before judging, at least 5.
    saves: TRAIN batches before judging where there is no EVAL, at least 5.

    Example: labels were shuffled, and 16 evaluations later R² is −0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2}
    causes: ClassVar[str] = (
        "Labels do not belong to their inputs, the inputs hold nothing of what is to be predicted "
        "or arrive broken, the model cannot express it, or its updates lead nowhere."
    )
    advice: ClassVar[str] = (
        "Check a few samples with their labels as the model receives them, then whether the model "
        "can learn ten of them by heart. If it can, data or regularisation are to blame; if not, "
        "look at the learning rate, the loss and the gradients. It may be all that data can tell."
    )

    least_skill: float = 0.05
    progress: float = 0.02
    evaluations: int = 8
    saves: int = 30

    def __post_init__(self) -> None:
        if not 0 < self.least_skill < 1:
            raise ValueError(f"least_skill is {self.least_skill}, but must be above 0 and below 1")
        if not self.progress >= 0:
            raise ValueError(f"progress is {self.progress}, but must be a number from 0 on")
        for name in ("evaluations", "saves"):
            if getattr(self, name) < _RECENT:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least {_RECENT}")

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
    """Each worker's predictions, and what they come to."""
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
    """At most so many, every other one dropped when they are more; the newest stays."""
    return skills if len(skills) <= _HISTORY else [*skills[:-1:2], skills[-1]]
