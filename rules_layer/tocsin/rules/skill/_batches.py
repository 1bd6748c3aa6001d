"""Judges predictions against a constant prediction, batch by batch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.model import SCORES, Mode, Reason, Verdict
from tocsin.rules._rule import State, Step, Tensor
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.skill._classes import worker_batches
from tocsin.rules.skill._pairing import percent
from tocsin.rules.skill._skill import (
    ScoredBatch,
    add_batch,
    balanced_skill,
    errors_and_baseline,
    score_batch,
    skill,
)

MODES = (Mode.EVAL.name, Mode.TRAIN.name)

TOGETHER = 5  # batches for one skill
_IN_A_ROW = 2  # batches without skill
_HISTORY = 32  # skills in the memory; if there are more, every other one is dropped

_OUTPUT = re.compile(r"_output_\w+$")  # of a model, by PyTorch's hook

Scored = tuple[Tensor, ScoredBatch]


@dataclass(frozen=True)
class Needed:
    """The ``batches`` of each mode and its ``samples`` before judging; the ``skill``, a share, that
    the last batches must have, or its ``progress`` since half of them."""

    batches: Mapping[str, int]
    samples: int
    skill: float
    progress: float

    def are_met(self, mode: str, memory: Mapping[str, Any]) -> bool:
        enough = memory["past"]["samples"] >= self.samples
        return bool(enough and memory["batches"] >= self.batches[mode])


def has_batches(state: State) -> bool:
    """Return whether batches of a run were judged."""
    return any(mode in state for mode in MODES)


def judge_batch(state: State, step: Step, found: Scored, needed: Needed) -> tuple[State, Verdict]:
    """Add a batch, and judge the last few of its mode together. The state has a memory of each
    mode."""
    tensor, batch = found
    key = Mode.EVAL.name if step.mode is Mode.EVAL else Mode.TRAIN.name
    memory = _added(state.get(key, {}), batch)
    if memory is None:
        return state, not_applicable(Reason.NO_TENSOR, "labels of more than 100 classes")
    state = {**state, key: memory}
    now = memory["skills"][-1][1] if memory["skills"] else None
    if not needed.are_met(key, memory) or now is None:
        return state, UNDECIDED
    before = _half_way(memory["skills"], memory["batches"])
    low = now < needed.skill and max(now, 0.0) - max(before, 0.0) < needed.progress
    low = low and balanced_skill(memory["past"]) < needed.skill
    if not low or (key == Mode.TRAIN.name and _evaluations_show_skill(state, needed)):
        return {**state, key: {**memory, "low": 0}}, measured(HEALTHY, now, needed.skill, "below")
    streak = memory.get("low", 0) + 1
    state = {**state, key: {**memory, "low": streak}}
    if streak < _IN_A_ROW:
        return state, UNDECIDED
    detail = (
        f"{tensor.name} avoids {percent(now)} of the errors of a constant prediction in {key} "
        f"({memory['batches']} batches), less than {100 * needed.skill:g} %"
    )
    evidence = {"skill": now, "before": before, "batches": memory["batches"]}
    fault = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
    return state, measured(fault, now, needed.skill, "below")


def _evaluations_show_skill(state: State, needed: Needed) -> bool:
    memory = state.get(Mode.EVAL.name)
    if memory is None or not memory["skills"] or not needed.are_met(Mode.EVAL.name, memory):
        return False
    return bool(memory["skills"][-1][1] >= needed.skill)


def _added(memory: Mapping[str, Any], batch: ScoredBatch) -> dict[str, Any] | None:
    """Add a batch to the memory of a mode. Returns None if it cannot be added."""
    past = add_batch(memory.get("past", {}), batch)
    if past is None:
        return None
    recent = [*memory.get("recent", []), errors_and_baseline(past, batch)][-TOGETHER:]
    batches = memory.get("batches", 0) + 1
    skills = memory.get("skills", [])
    if len(recent) == TOGETHER and (now := skill(recent)) is not None:
        skills = _thinned([*skills, [batches, now]])
    return {**memory, "past": past, "recent": recent, "batches": batches, "skills": skills}


def scored_batches(step: Step) -> Iterator[Scored]:
    """Yield each worker's predictions, compared with their labels.

    Numbers that a model gives are such predictions only if a loss compares them with the labels:
    else they may be ranks, or logarithms. Labels that are all alike may be no labels, but what
    another model is to take for real, or not.
    """
    predictions = [each for each in step.tensors["predictions"] if each.kind != SCORES]
    for each in worker_batches(step.tensors["labels"], predictions):
        alike = each.values.size > 1 and bool((each.values == each.values.flat[0]).all())
        if alike or each.predictions is None or each.predicted is None:
            continue
        batch = score_batch(each.values, each.predicted)
        if batch and (batch.counts is not None or not _OUTPUT.search(each.predictions.name)):
            yield each.predictions, batch


def _half_way(skills: Sequence[Sequence[float]], batches: int) -> float:
    """Return the skill when there were half as many batches, or the first known skill."""
    earlier = [number for at, number in skills if at <= max(batches / 2, skills[0][0])]
    return earlier[-1]


def _thinned(skills: list[list[float]]) -> list[list[float]]:
    """Drop every other skill if there are too many, but keeps the last."""
    return skills if len(skills) <= _HISTORY else [*skills[:-1:2], skills[-1]]
