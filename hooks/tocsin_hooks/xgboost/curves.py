"""The course of the losses of a training, round by round."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from tocsin.model import HELD_OUT, Role
from tocsin.tensors import named

from tocsin_hooks.xgboost.given import Given

_ROUNDS = 10
_AS_FAST = 0.6  # of the first fall, in as many of the last rounds: over half of the way is left
_LEAST, _MOST = 0.01, 0.3  # of the first loss, that is gone at the end
_ERRORS = re.compile(r"error(?![a-z])")  # shares, which fall in steps


def falls_to_the_end(evaluations: Mapping[str, Mapping[str, Sequence[Any]]], given: Given) -> bool:
    """Return whether each loss of the data held out falls as fast in the last fifth of all rounds
    as in the first one, and little of it is gone. Of a continued training that is not known.

    What boosting has left to learn shrinks by a share in each round. Where the fall has not
    slowed down, most of it is still to be learned. A loss that is mostly noise slows down sooner.
    """
    curves = [
        values
        for data, metrics in evaluations.items()
        for metric, values in metrics.items()
        if given.kinds.get(data) == HELD_OUT and _is_loss(metric)
    ]
    return not given.continued and bool(curves) and all(map(_falls, curves))


def _is_loss(metric: str) -> bool:
    known = named(f"train-{metric}")
    return known is not None and known[0] is Role.LOSS and not _ERRORS.search(metric)


def _falls(values: Sequence[Any]) -> bool:
    known = np.asarray(values, float)
    if known.ndim != 1 or len(known) < _ROUNDS or not np.isfinite(known).all():
        return False
    fifth = len(known) // 5
    first, last = known[0] - known[fifth], known[-1 - fifth] - known[-1]
    gone = known[0] - known[-1]
    bounded = _LEAST * known[0] <= gone <= _MOST * known[0]
    falls = all(after < before for before, after in pairwise(known[::fifth]))
    return bool(bounded and falls and last >= _AS_FAST * first > 0)
