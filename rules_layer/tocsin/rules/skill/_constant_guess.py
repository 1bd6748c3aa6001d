"""Compares losses with that of the best constant prediction, which ignores the input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules._rule import State, Step, Tensor
from tocsin.rules._verdicts import measured, not_applicable, violation, worst_verdict
from tocsin.rules._window import rounded
from tocsin.rules.skill._blocks import newest, with_part
from tocsin.rules.skill._looks import before_finding, with_streak
from tocsin.rules.skill._pairing import (
    MOST_BLOCKS,
    MOST_SITES,
    TOGETHER,
    LossSite,
    bounds,
    percent,
    sites,
)

_PATIENCE = 300  # training steps before the first look
_CLEAR_SOONER = 150  # training steps, if the loss is clearly above a constant prediction
_CLEARLY = 0.03  # of the constant prediction's loss: clearly above it
_PATIENCE_FOR_EVALUATIONS = 200  # training steps before evaluations are judged
_COMPARISONS = 100  # before the first look
_LOOKS = 2  # in a row
_NOT_BELOW = 0.005  # of the loss of a constant prediction
_FAR_ABOVE = 3.0  # times the constant prediction's loss: reported even while the loss falls
_FAR_PATIENCE = 200  # training steps: by then a loss has come down from a bad start
_LITTLE_SKILL = 0.1  # skill against shuffled labels: with more, the model has learned something
_ON_ITS_WAY = 0.25  # of the remaining distance, gained in a quarter of the comparisons
_LEAST_WON = 0.01  # of the constant prediction's loss: less is chance
_MOST = 3.0  # by which a loss counts as lower or higher: the logarithm of a ratio
_LARGEST = 1e100  # sums of larger losses might not be finite
_MANY_TIMES = 10  # times the constant prediction's loss, from which the text mentions it
_EVALUATIONS = 3  # in a row
_MANY_EVALUATIONS = 8  # evaluations worse than a constant prediction, which outweigh some skill
_SOME_SKILL = 0.2  # skill against shuffled labels that these evaluations outweigh
_SAMPLES = 400  # in them
_HARDLY_BELOW = 0.03  # in each of them

Memory = Mapping[str, Any]
"""The memory of a site.

``n``: the number of comparisons with a known constant.
``sums``: of each block the sums of losses, of re-paired losses and of those of the constant, each
save with its means; and what else ``with_part`` keeps.
``since``: the mode step before the first of them; ``next``: when to look again.
``low``: the looks in a row that found no skill; ``below``: by how much the loss was lower.
``last``: of each of the last evaluations by how much it was lower, its skill and samples.
``best``: by how much the loss was lower in the best evaluation; ``rows``: samples in all of them.
"""


def judge_constant_guess(
    state: State, step: Step, tensors: Iterable[Tensor]
) -> tuple[State, Verdict]:
    """Return a violation if a loss is not below that of the best constant prediction.

    In training it looks at the last half of all saves, after 300 steps and then after every
    quarter more; at losses that are at least 3 % above the guess's from 150 steps on. There the
    loss must not be below the constant guess's with 99.9 % confidence, must hardly depend on which
    label belongs to which sample, and must not be on its way down: a quarter of what is missing, in
    the newer half of them. A loss of three times the guess's in all of that half is enough by
    itself, after 200 steps. The same must hold of three evaluations in a row, of at least 400
    samples, in their means, after 200 steps. Where none of eight evaluations or more was better
    than the guess, a model may depend on the labels somewhat more; and where all were at least 3 %
    above it, the samples of all of them count.
    """
    if step.mode is Mode.PREDICT:
        return state, not_applicable(Reason.NO_TENSOR, "a step of mode PREDICT")
    evaluates = step.mode is Mode.EVAL
    spent = state.get("spent", 0) if evaluates else step.mode_step
    sites_here = list(sites(step, tensors))
    if not sites_here:
        return state, not_applicable(Reason.NO_TENSOR, "no loss that the hook compares")
    memories: dict[str, Memory] = dict(state.get("sites", {}))
    for site in sites_here:
        key = f"{'EVAL' if evaluates else 'TRAIN'}/{site.key}"
        if key not in memories and len(memories) >= 2 * MOST_SITES:
            continue
        memory = memories.get(key, {})
        if evaluates:
            memory = _evaluated(memory, site, spent)
        else:
            memory = _looked(_added(memory, site, spent), spent)
        memories[key] = {**memory, "kind": site.tensor.kind}
    # A mode that is well does not take back what another one shows.
    verdicts = [_verdict(memory, sites_here[0].tensor) for memory in memories.values()]
    return {"spent": spent, "sites": memories}, worst_verdict(verdicts)


def _evaluated(memory: Memory, site: LossSite, spent: int) -> Memory:
    """Judge the last evaluations, each by its mean."""
    if site.constant is None:
        return memory
    ratio = max(math.exp(-_MOST), min(1 - site.constant, math.exp(_MOST)))  # of both losses
    now = [round(-math.log(ratio), 4), round(fmean(site.skills), 4), site.rows]
    last = [*memory.get("last", []), now][-_EVALUATIONS:]
    best = max(memory.get("best", now[0]), now[0])
    n, rows = memory.get("n", 0) + 1, memory.get("rows", 0) + site.rows
    memory = {**memory, "last": last, "best": best, "n": n, "rows": rows}
    below = [each for each, *_ in last]
    never = n >= _MANY_EVALUATIONS and best < _HARDLY_BELOW
    samples = rows if never and best < -_CLEARLY else sum(each for *_, each in last)
    if len(last) < _EVALUATIONS or samples < _SAMPLES or spent < _PATIENCE_FOR_EVALUATIONS:
        return memory
    little = _SOME_SKILL if never else _LITTLE_SKILL
    depends = fmean(skill for _, skill, _ in last) >= little
    falls = below[-1] - below[0] >= max(_LEAST_WON, _ON_ITS_WAY * abs(below[-1]))
    bad = fmean(below) < _LEAST_WON and max(below) < _HARDLY_BELOW and not depends and not falls
    low = _LOOKS if bad else 0 if max(below) > _HARDLY_BELOW else memory.get("low", 0)
    return {**memory, "low": low, "below": round(fmean(below), 4)}


def _added(memory: Memory, site: LossSite, now: int) -> dict[str, Any]:
    known = [
        (*(max(-_LARGEST, min(each, _LARGEST)) for each in both), constant)
        for *both, constant in site.losses
        if 0 < constant < _LARGEST  # not unknown
    ]
    added = {**memory, "n": memory.get("n", 0) + len(known), "since": memory.get("since", now)}
    for first in range(0, len(known), TOGETHER):
        means = map(fmean, zip(*known[first : first + TOGETHER], strict=True))
        added |= with_part(added, [rounded(mean) or 0.0 for mean in means], MOST_BLOCKS)
    return added


def _looked(memory: Memory, now: int) -> Memory:
    spent = now - memory["since"]
    if spent < memory.get("next", _CLEAR_SOONER) or memory["n"] < _COMPARISONS:
        return memory
    half = newest(memory, 0.5)
    below = [[1.0, _below(block)] for block in half]
    found = bounds(below)
    if found is None:
        return memory
    middle = len(half) // 2
    before, after = (
        sum(b for _, b in part) / len(part) for part in (below[:middle], below[middle:])
    )
    loss, repaired = (sum(block[at] for block in half) for at in (0, 1))
    depends = repaired > 0 and 1 - loss / repaired >= _LITTLE_SKILL
    falls = after - before >= max(_LEAST_WON, _ON_ITS_WAY * abs(after))
    most = _NOT_BELOW if spent >= _PATIENCE else -_CLEARLY
    far = spent >= _FAR_PATIENCE and all(each < -math.log(_FAR_ABOVE) for _, each in below)
    bad = far or (found.high < most and not depends and not falls)
    streak = with_streak(memory, "low", bad=bad, good=found.mean > _LEAST_WON, enough=_LOOKS)
    after = round(1.25 * spent) + 1
    after = min(after, _PATIENCE) if spent < _PATIENCE else after
    return {**memory, **streak, "next": after, "below": round(found.mean, 4)}


def _below(block: Sequence[float]) -> float:
    """Return by how much a block's loss is below the constant's: the logarithm of their ratio."""
    loss, _, constant = block
    if not (loss > 0 and constant > 0):
        return _MOST if constant > 0 else 0.0
    return max(-_MOST, min(math.log(constant / loss), _MOST))


def _level(below: float) -> str:
    """Describe a loss relative to that of the guess. A ratio is known up to twenty."""
    times = math.exp(-below)
    if times >= _MANY_TIMES:
        return f"at least {math.floor(times)} times that"
    return f"{percent(times - 1)} above that" if times >= 1.01 else "not below that"


def _verdict(memory: Memory, tensor: Tensor) -> Verdict:
    if early := before_finding(memory, "low", _LOOKS, "below", 0.0):
        return early
    below = memory["below"]
    half = f"the last half of the run ({memory['n']} comparisons)"
    where = f"{_EVALUATIONS} consecutive evaluations" if "last" in memory else half
    kind = memory.get("kind")
    name = kind if kind not in (None, "loss") else "the loss"
    falls = "" if below < -math.log(_FAR_ABOVE) else ", and hardly falls"
    detail = f"{name} is {_level(below)} of a constant prediction in {where}{falls}"
    found = violation(Reason.BELOW_THRESHOLD, detail, tensor, below=below, comparisons=memory["n"])
    return measured(found, below, 0.0, "below")
