"""Reads the scalars that rules follow from step to step: losses, metrics, learning rates."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter
from typing import Literal

import msgspec

from tocsin.model import Mode, Role, Verdict
from tocsin.rules._rule import Read, Step, Tensor
from tocsin.rules._shared import shared
from tocsin.rules._verdicts import measured

TRAINING = (Mode.TRAIN, Mode.GLOBAL)
"""The modes of training. GLOBAL is the mode of frameworks that do not tell modes apart."""

MOST_SERIES = 8
"""The number of series that a rule follows in one mode. It keeps the state small."""

MOST_NAMES = 1 << 12
"""The number of names whose meaning is remembered: they come again at every step."""

SCALAR_FIELDS = ("mean", "nan", "posinf", "neginf")
"""The fields of a summary that ``points`` needs."""

LOSSES = Read(roles=(Role.LOSS,), fields=SCALAR_FIELDS)
"""Reads the losses. A user may name other tensors."""

Direction = Literal["falls", "rises"]

_LONGEST_KEY = 40  # characters of a name that a state keeps

# Words in the names of metrics that should rise.
_SHOULD_RISE = re.compile(
    r"(?<![a-z])(auc|aucpr|m?ap|ndcg|pre|accuracy|acc|top_?\d+|precision|recall|f1|r2|iou|dice|bleu|"
    r"rouge|psnr|ssim)(?![a-z])"
)

_SHOULD_FALL = re.compile(r"loss|err")

_NAME = attrgetter("name")

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Point(msgspec.Struct, frozen=True):
    """A scalar at a step: the mean over workers.

    ``key``: the key of its series, by mode and name.
    ``tensor``: the tensor of the worker with the worst value.
    ``value``: the mean; it may be NaN or infinite.
    ``cost``: the value, or minus the value if it should rise. Less is better.
    ``rises``: whether it should rise.
    """

    key: str
    tensor: Tensor
    value: float
    cost: float
    rises: bool = False


@lru_cache(MOST_NAMES)
def should_rise(name: str) -> bool:
    """Return whether a metric of this name should rise: accuracy, auc, map …"""
    words = _CAMEL_CASE.sub("_", name).lower()
    return _SHOULD_RISE.search(words) is not None and _SHOULD_FALL.search(words) is None


def points(
    step: Step, tensors: Iterable[Tensor], direction: Direction | None = None
) -> Iterator[Point]:
    """Yield the known scalars among ``tensors``, one for each name, at most MOST_SERIES.

    ``direction`` says which way is good; None decides by the name.
    """
    return iter(_points_of(step.mode, tuple(tensors), direction))


@shared
def _points_of(
    mode: Mode, tensors: tuple[Tensor, ...], direction: Direction | None
) -> tuple[Point, ...]:
    return tuple(islice(_points(mode.name, tensors, direction), MOST_SERIES))


def _points(mode: str, tensors: Iterable[Tensor], direction: Direction | None) -> Iterator[Point]:
    for name, group in groupby(sorted(tensors, key=_NAME), _NAME):
        known = [(number, tensor) for tensor in group if (number := _scalar(tensor)) is not None]
        if not known:
            continue
        up = should_rise(name) if direction is None else direction == "rises"
        sign = -1.0 if up else 1.0
        value, worst = known[0]
        if len(known) > 1:
            lost = [number for number, _ in known if not math.isfinite(number)]
            value = _non_finite(lost) if lost else sum(number / len(known) for number, _ in known)
            _, worst = max(known, key=lambda pair: (not math.isfinite(pair[0]), sign * pair[0]))
        yield Point(f"{mode}/{_short_key(name)}", worst, value, sign * value, up)


def measured_cost(
    verdict: Verdict, point: Point, cost: float, limit: float, name: str = ""
) -> Verdict:
    """Add a cost and its upper limit to a verdict, as values: both signs turn if it rises."""
    if point.rises:
        return measured(verdict, -cost, -limit, "below", name)
    return measured(verdict, cost, limit, name=name)


@lru_cache(MOST_NAMES)
def _short_key(name: str) -> str:
    """Shorten a long name to its first characters and a digest: states hold many keys."""
    if len(name) <= _LONGEST_KEY:
        return name
    digest = base64.urlsafe_b64encode(hashlib.blake2b(name.encode(), digest_size=9).digest())
    return f"{name[: _LONGEST_KEY - 12]}{digest.decode()}"


def _scalar(tensor: Tensor) -> float | None:
    """Return a tensor's mean, NaN or infinity if it holds one, and None if nothing is known."""
    summary = tensor.summary
    if summary.nan:
        return math.nan
    if summary.posinf or summary.neginf:
        return math.inf if summary.posinf else -math.inf
    return summary.mean


def _non_finite(numbers: list[float]) -> float:
    """Return NaN if one of the numbers is NaN, else the first infinity."""
    return math.nan if any(math.isnan(number) for number in numbers) else numbers[0]
