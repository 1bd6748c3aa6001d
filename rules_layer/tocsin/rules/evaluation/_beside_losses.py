"""Keeps the latest losses of TRAIN and EVAL, and compares them."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from tocsin.model import Mode
from tocsin.rules._rule import State, Step
from tocsin.rules._series import points

_LOSSES = 5  # losses of each mode whose mean is compared


def with_losses(state: State, step: Step, mode: Mode) -> dict[str, Any]:
    """Add the mean of a step's losses to the last few of its mode."""
    losses = [point.value for point in points(step, step.tensors["losses"], "falls")]
    if not losses:
        return dict(state)
    mean = fmean(losses)
    here = float(f"{mean:.6g}") if math.isfinite(mean) else None
    if mode is Mode.TRAIN and "first loss" not in state:
        state = {**state, "first loss": here}
    last = [*state.get(f"{mode.name} losses", []), here][-_LOSSES:]
    return {**state, f"{mode.name} losses": last}


def worse_by(state: State) -> float | None:
    """Return the gap between EVAL and TRAIN losses, relative to TRAIN; None if it is unknown."""
    train, held = (state.get(f"{mode.name} losses") for mode in (Mode.TRAIN, Mode.EVAL))
    if not train or not held:
        return None
    if None in train or None in held:
        return math.inf
    return (fmean(held) - fmean(train)) / (abs(fmean(train)) or 1.0)


def lost(state: State) -> float:
    """Return the gap between EVAL and TRAIN losses, relative to the first TRAIN loss; infinity if
    it is unknown.
    """
    train, held = (state.get(f"{mode.name} losses", ()) for mode in (Mode.TRAIN, Mode.EVAL))
    first: float | None = state.get("first loss")
    if not first or not train or not held or None in train or None in held:
        return math.inf
    return (fmean(held) - fmean(train)) / abs(float(first))


def lost_of_won(state: State) -> float:
    """Return the gap between EVAL and TRAIN losses, relative to the improvement of training since
    its first loss; 0 if it is unknown, or there was no improvement.
    """
    train, held = (state.get(f"{mode.name} losses", ()) for mode in (Mode.TRAIN, Mode.EVAL))
    first = state.get("first loss")
    if first is None or not train or not held or None in train or None in held:
        return 0.0
    won = float(first) - fmean(train)
    return (fmean(held) - fmean(train)) / won if won > 0 else 0.0
