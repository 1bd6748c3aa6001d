"""Recognises a model that restarts with new weights, as in the next fold."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tocsin.model import Role
from tocsin.rules._rule import Read, State, Step, Tensor
from tocsin.rules._series import points

WEIGHTS = Read(roles=(Role.WEIGHT,), fields=("size", "l1", "update_l1"))
"""Reads how far weights have moved since the last save."""

_REPLACED = 0.9  # of a weight's mean size: it hardly depends on its earlier value
_MOST = 0.5  # of the elements that have changed
_LEARNED = 0.5  # of the first loss, or less
_BACK = 2 / 3  # of the improvement is lost


def has_restarted(state: State, step: Step, losses: Iterable[Tensor]) -> tuple[State, bool]:
    """Return whether a trained model is about as untrained as at first: most of the improvement of
    its loss is lost at once, or most weights differ from the last save.

    Reads ``weights``; ``loss``, ``first`` and ``least`` of the state are its own. The first loss
    that was seen is followed.
    """
    known = {each.key: each.value for each in points(step, losses, "falls")}
    name = state.get("loss", next(iter(known), None))
    loss = known.get(name, math.nan)
    if not math.isfinite(loss):
        return state, name is None and _are_replaced(step)
    first, least = state.get("first", loss), state.get("least", loss)
    back = (loss - least) / (first - least) if first > least else 0.0
    if least <= _LEARNED * first and (back >= _BACK or _are_replaced(step)):
        return {**state, "loss": name, "first": loss, "least": loss}, True
    return {**state, "loss": name, "first": first, "least": min(least, loss)}, False


def _are_replaced(step: Step) -> bool:
    summaries = [each.summary for each in step.tensors.get("weights", ())]
    changed = replaced = 0
    for each in summaries:
        if each.size and each.l1 and each.update_l1:
            changed += each.size
            replaced += each.size * (each.update_l1 >= _REPLACED * each.l1)
    return changed > 0 and replaced >= _MOST * changed
