"""Tests whether a model distinguishes its samples, from the comparisons of its losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.rules._rule import State, Step
from tocsin.rules._series import TRAINING
from tocsin.rules.skill._pairing import MOST_SITES, added, bounds, recent, sites

_BLOCKS = 16  # of comparisons
_GROWN = 0.02  # skill, since the first comparisons
_KNOWS = 0.1  # skill for classes that no untrained model has: it was trained before
_KNOWS_NUMBERS = 0.5  # the same for numbers, where an untrained residual model has some skill
_CLASSES = ("cross_entropy", "nll_loss")


def follow_skill(memories: State, step: Step) -> State:
    """Add the comparisons of a training step to those of their losses."""
    memories = dict(memories)
    for site in sites(step, step.tensors.get("skills", ())) if step.mode in TRAINING else ():
        if site.key in memories or len(memories) < MOST_SITES:
            memory = memories.get(site.key, {})
            if not memory.get("known"):
                memory = added(memory, site, step.mode_step, most=_BLOCKS)
                known = _is_known(
                    memory, _KNOWS if site.tensor.kind in _CLASSES else _KNOWS_NUMBERS
                )
                memories[site.key] = {"known": True} if known else memory
    return memories


def has_skill(memories: State) -> bool:
    """Return whether the skill of one of the losses was once significant."""
    return any(memory.get("known") for memory in memories.values())


def _is_known(memory: Mapping[str, Any], trained: float) -> bool:
    """Return whether the skill of the last half is surely more than that of the first comparisons,
    or than that of a model that was ``trained`` before."""
    found = bounds(recent(memory, 0.5))
    if found is None:
        return False
    comparisons, skills, *_ = memory["sums"][0]
    return bool(found.low > min(skills / comparisons + _GROWN, trained))
