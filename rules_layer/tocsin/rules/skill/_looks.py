"""Follows the comparisons of each loss from save to save, for the rules on skill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules._rule import State, Step
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, worst_verdict
from tocsin.rules.skill._pairing import MOST_SITES, TOGETHER, LossSite, Memory, added, sites


def judge_training_sites(
    state: State,
    step: Step,
    look: Callable[[Memory, int], Memory],
    judge: Callable[[Memory, LossSite], Verdict],
) -> tuple[State, Verdict]:
    """Judge each call of a loss in training, and return the worst verdict.

    ``look`` gets the memory of a call with new comparisons in it, and the step of the last one.
    It looks several times at a save with many comparisons, after each of the parts that count as
    one: rare saves come to the same verdicts.
    """
    if step.mode not in TRAINING:
        return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
    verdicts = []
    for site in sites(step, step.tensors["skills"]):
        if site.key not in state and len(state) >= MOST_SITES:
            continue
        memory: Memory = state.get(site.key, {})
        for part, at in _parts(site, memory.get("now"), step.mode_step):
            memory = look(added(memory, part, at), at)
        state = {**state, site.key: {**memory, "now": step.mode_step}}
        verdicts.append(judge(memory, site))
    if not verdicts:
        return state, not_applicable(Reason.NO_TENSOR, "no loss that is compared")
    return state, worst_verdict(verdicts)


def judge_evaluations(
    state: State,
    step: Step,
    look: Callable[[Memory, Memory, LossSite], Memory],
    judge: Callable[[Memory, Memory, LossSite], Verdict],
) -> tuple[State, Verdict]:
    """Compare the loss functions of evaluations with the same ones in training.

    Both callables get the memories of EVAL and of TRAIN. In that of TRAIN ``now`` is the step of
    its last comparison, and ``better`` the share by which the loss was below that of a constant
    guess. A loss function is known by its name: modes may call it on other lines.
    """
    if step.mode is Mode.PREDICT:
        return state, not_applicable(Reason.NO_TENSOR, "a step of mode PREDICT")
    mode = Mode.EVAL if step.mode is Mode.EVAL else Mode.TRAIN
    verdicts = []
    for site in sites(step, step.tensors["skills"]):
        loss = (site.tensor.kind or site.tensor.name)[-40:]
        trained, key = f"{Mode.TRAIN.name}/{loss}", f"{mode.name}/{loss}"
        if key not in state and len(state) >= 2 * MOST_SITES:
            continue
        together = TOGETHER if mode is Mode.TRAIN else 1
        memory: Memory = added(state.get(key, {}), site, step.mode_step, together=together)
        if mode is Mode.TRAIN:
            better = memory.get("better", 0.0) if site.constant is None else site.constant
            memory = {**memory, "now": step.mode_step, "better": round(better, 4)}
            verdicts.append(UNDECIDED)
        elif trained in state:
            memory = look(memory, state[trained], site)
            verdicts.append(judge(memory, state[trained], site))
        state = {**state, key: memory}
    if not verdicts:
        return state, not_applicable(Reason.NO_TENSOR, "no loss that is compared in both modes")
    return state, worst_verdict(verdicts)


def with_streak(
    memory: Memory, key: str, *, bad: bool, good: bool, enough: int
) -> Mapping[str, int]:
    """Count consecutive bad checks of ``key``; after ``enough``, only a good check resets them."""
    count = memory.get(key, 0)
    if bad:
        return {key: count + 1}
    return {key: 0 if good or count < enough else count}


def before_finding(
    memory: Memory, bad: str, enough: int, value: str, limit: float
) -> Verdict | None:
    """Return the verdict after fewer than ``enough`` consecutive bad checks; then None.

    ``bad`` is the key of their count, and ``value`` that of what must not be below ``limit``.
    """
    if bad not in memory:
        return UNDECIDED
    if memory[bad] >= enough:
        return None
    return measured(HEALTHY, memory[value], limit, "below") if value in memory else HEALTHY


def _parts(site: LossSite, before: int | None, now: int) -> Iterator[tuple[LossSite, int]]:
    """Yield the comparisons of a save in small parts, with the step of the last in each."""
    skills = site.skills
    first = max(0, now - len(skills)) if before is None else before
    for at in range(0, len(skills), TOGETHER):
        part = skills[at : at + TOGETHER]
        done = at + len(part)
        rows = site.rows * done // len(skills) - site.rows * at // len(skills)
        step = first + round((now - first) * done / len(skills))
        yield replace(site, skills=part, rows=rows), step
