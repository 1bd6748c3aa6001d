"""Recognises a model whose weights were drawn anew, as for the next fold of a cross-validation."""

from __future__ import annotations

import math

from tocsin.model import Role
from tocsin.rules._rule import Read, State, Step
from tocsin.rules._series import points

WEIGHTS = Read(roles=(Role.WEIGHT,), fields=("size", "l1", "update_l1"))
"""Reads how far weights have moved since the last save."""

_REPLACED = 0.9  # of a weight's mean size: it hardly depends on what it was before
_MOST = 0.5  # of the elements that have changed
_LEARNED = 0.5  # of the first loss, or less
_BACK = 2 / 3  # of what had been won is lost


def begins_anew(state: State, step: Step) -> tuple[State, bool]:
    """Whether a model is about as untrained in a step of training as at first: most of its weights
    are others than at the last save, or most of what its loss had won is lost at once.

    Reads ``weights`` and ``losses``; ``first`` and ``least`` of the state are its own.
    """
    known = [each.value for each in points(step, step.tensors["losses"], "falls")]
    if not known or not math.isfinite(loss := sum(known)):
        return state, _are_replaced(step)
    first, least = state.get("first", loss), state.get("least", loss)
    lost = least <= _LEARNED * first and loss >= least + _BACK * (first - least)
    if _are_replaced(step) or (first > least and lost):
        return {**state, "first": loss, "least": loss}, True
    return {**state, "first": first, "least": min(least, loss)}, False


def _are_replaced(step: Step) -> bool:
    summaries = [each.summary for each in step.tensors.get("weights", ())]
    changed = replaced = 0
    for each in summaries:
        if each.size and each.l1 and each.update_l1:
            changed += each.size
            replaced += each.size * (each.update_l1 >= _REPLACED * each.l1)
    return changed > 0 and replaced >= _MOST * changed
