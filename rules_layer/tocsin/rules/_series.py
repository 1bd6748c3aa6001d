"""Scalars that are followed from step to step: losses and metrics."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal

from tocsin.model import Role
from tocsin.rules._rule import Read, Step, Tensor

MOST_SERIES = 8
"""Followed by one rule in one mode: a rule's state stays small whatever a run captures."""

SCALAR_FIELDS = ("mean", "nan", "posinf", "neginf")
"""What ``points`` needs of a tensor's summary."""

LOSSES = Read(roles=(Role.LOSS,), fields=SCALAR_FIELDS)
"""What rules on losses read, unless a user names other tensors."""

Direction = Literal["falls", "rises"]

_LONGEST_KEY = 40

# A word of the name, as frameworks and people write metrics of which more is better.
_RISES = re.compile(
    r"(?<![a-z])(auc|aucpr|m?ap|ndcg|pre|accuracy|acc|top_?\d+|precision|recall|f1|r2|iou|dice|bleu|"
    r"rouge|psnr|ssim)(?![a-z])"
)

_FALLS = re.compile(r"loss|err")

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class Point:
    """A scalar at a step, the mean over workers. ``cost`` is smaller the better: of a metric that
    should rise (``rises``), minus its value. Both may be NaN or infinite.
    """

    key: str
    tensor: Tensor
    value: float
    cost: float
    rises: bool = False


def rises(name: str) -> bool:
    """Whether more of a metric of this name is better: accuracy, auc, map …"""
    words = _HUMP.sub("_", name).lower()
    return _RISES.search(words) is not None and _FALLS.search(words) is None


def points(
    step: Step, tensors: Iterable[Tensor], direction: Direction | None = None
) -> Iterator[Point]:
    """The scalars among ``tensors`` whose value is known, one per name, at most MOST_SERIES.

    ``direction`` says what is good; None goes by the name. ``key`` is unique in mode and name.
    The tensor is that of the worker whose value is farthest from good.
    """
    return islice(_points(step, tensors, direction), MOST_SERIES)


def _points(step: Step, tensors: Iterable[Tensor], direction: Direction | None) -> Iterator[Point]:
    named = groupby(sorted(tensors, key=lambda tensor: tensor.name), lambda tensor: tensor.name)
    for name, group in named:
        known = [(number, tensor) for tensor in group if (number := _scalar(tensor)) is not None]
        if not known:
            continue
        lost = [number for number, _ in known if not math.isfinite(number)]
        value = _lost(lost) if lost else sum(number / len(known) for number, _ in known)
        up = rises(name) if direction is None else direction == "rises"
        sign = -1.0 if up else 1.0
        _, worst = max(known, key=lambda pair: (not math.isfinite(pair[0]), sign * pair[0]))
        yield Point(f"{step.mode.name}/{_short(name)}", worst, value, sign * value, up)


def _short(name: str) -> str:
    """The name itself, or of a long one the beginning and a digest: states hold many keys."""
    if len(name) <= _LONGEST_KEY:
        return name
    digest = base64.urlsafe_b64encode(hashlib.blake2b(name.encode(), digest_size=9).digest())
    return f"{name[: _LONGEST_KEY - 12]}{digest.decode()}"


def _scalar(tensor: Tensor) -> float | None:
    """The tensor's mean, or what keeps it from having one; None if nothing is known."""
    summary = tensor.summary
    if summary.nan:
        return math.nan
    if summary.posinf or summary.neginf:
        return math.inf if summary.posinf else -math.inf
    return summary.mean


def _lost(lost: list[float]) -> float:
    """NaN if any is, else the infinity."""
    return math.nan if any(math.isnan(number) for number in lost) else lost[0]
