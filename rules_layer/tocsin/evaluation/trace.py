"""The trace of an evaluation: what each rule found and measured, and the losses, thinned."""

from __future__ import annotations

import math
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.model import Outcome, Role, RuleStatus, Verdict
from tocsin.rules import Step, Tensor
from tocsin.words import cut

UNDECIDED, HEALTHY, VIOLATION, FIRING = "uhvf"

MOST_POINTS = 800  # of a lane in a trace that is kept
MOST_SCALARS = 24
MOST_BYTES = 32 << 20  # of a trace, decompressed
_BUCKETS = 400  # that a lane of more than MOST_POINTS is thinned to
_NEAR = 50  # points around the first firing, and the newest ones, that are not thinned
_VERSION = 1
_MOST_NAME = 1024
_FOUND = {Outcome.HEALTHY: HEALTHY, Outcome.UNDECIDED: UNDECIDED}
_RANKS = np.zeros(256, np.uint8)
_RANKS[list(b"uhvf")] = range(4)

ScalarKind: TypeAlias = Literal["loss", "metric", "learning_rate"]
Scalar: TypeAlias = tuple[ScalarKind, str, str, str]
"""The kind, mode, name and worker of a scalar."""

SCALARS: Mapping[Role | None, ScalarKind] = {
    Role.LOSS: "loss",
    Role.METRIC: "metric",
    Role.LEARNING_RATE: "learning_rate",
}


class Point(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The finding of a rule at a step with its measure and limit; or the value of a scalar.

    of: the rule's name in the configuration, or the scalar.
    found: UNDECIDED, HEALTHY, VIOLATION, or FIRING: a violation while the rule fires.
    value, limit: None where not known or not finite.
    below: whether values below the limit violate the rule.
    """

    of: str | Scalar
    step: int
    found: str = HEALTHY
    value: float | None = None
    limit: float | None = None
    below: bool = False


@dataclass
class Lane:
    """The points of one rule or scalar in the order of steps; each holds until the next one.

    A point may stand for several: it has the step of the first, the worst of what was found, the
    last value and limit, the least and the greatest value. NaN is: not known.
    """

    below: bool = False
    steps: array[int] = field(default_factory=lambda: array("q"))
    found: bytearray = field(default_factory=bytearray)
    values: array[float] = field(default_factory=lambda: array("d"))
    low: array[float] = field(default_factory=lambda: array("d"))
    high: array[float] = field(default_factory=lambda: array("d"))
    limits: array[float] = field(default_factory=lambda: array("d"))

    def put(self, point: Point) -> None:
        """Add a point; a restarted job is evaluated again from its step on."""
        if self.steps and point.step <= self.steps[-1]:
            at = bisect_left(self.steps, point.step)
            del self.steps[at:], self.found[at:]
            for column in self._numbers:
                del column[at:]
        value = math.nan if point.value is None else point.value
        self.steps.append(point.step)
        self.found.append(ord(point.found))
        for column in (self.values, self.low, self.high):
            column.append(value)
        self.limits.append(math.nan if point.limit is None else point.limit)
        self.below = self.below if point.limit is None else point.below

    def thin(self) -> None:
        """Join points of the same slice of steps, but not near the first firing nor the newest."""
        steps = np.array(self.steps)
        width = steps[-1] - steps[0] + 1
        first = np.diff((steps - steps[0]) * _BUCKETS // width, prepend=-1) > 0
        first[-_NEAR:] = True
        fired = self.found.find(FIRING.encode())
        if fired >= 0:
            first[max(0, fired - _NEAR) : fired + _NEAR + 2] = True
        starts = np.flatnonzero(first)
        ends = np.append(starts[1:], len(steps)) - 1
        ranks = np.maximum.reduceat(_RANKS[np.frombuffer(self.found, np.uint8)], starts)
        self.found = bytearray(np.frombuffer(b"uhvf", np.uint8)[ranks].tobytes())
        self.steps = array("q", steps[starts].tobytes())
        self.low = array("d", np.fmin.reduceat(np.array(self.low), starts).tobytes())
        self.high = array("d", np.fmax.reduceat(np.array(self.high), starts).tobytes())
        self.values = array("d", np.array(self.values)[ends].tobytes())
        self.limits = array("d", np.array(self.limits)[ends].tobytes())

    @property
    def envelope(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The least and the greatest value of each point; None if each stands for one value."""
        low, high = np.array(self.low), np.array(self.high)
        return (low, high) if (low < high).any() else None

    @property
    def _numbers(self) -> tuple[array[float], ...]:
        return self.values, self.low, self.high, self.limits


@dataclass
class Trace:
    """A lane for each rule and scalar. ``add`` is the ``on_verdict`` of ``check``.

    most: how many points a lane may have; None: as many as there are.
    """

    most: int | None = None
    lanes: dict[str | Scalar, Lane] = field(default_factory=dict)

    def add(self, rule: str, step: Step, verdict: Verdict, status: RuleStatus) -> None:
        if (point := point_of(rule, step, verdict, status)) is not None:
            self.extend((point,))

    def extend(self, points: Iterable[Point]) -> None:
        """Add points; the same ones again change nothing."""
        for point in points:
            if point.of not in self.lanes and self._is_full(point.of):
                continue
            lane = self.lanes.setdefault(point.of, Lane())
            lane.put(point)
            if self.most is not None and len(lane.steps) > self.most:
                lane.thin()

    def keep(self, rules: Collection[str]) -> None:
        """Drop the lanes of other rules."""
        self.lanes = {
            of: lane for of, lane in self.lanes.items() if not isinstance(of, str) or of in rules
        }

    def _is_full(self, of: str | Scalar) -> bool:
        scalars = sum(not isinstance(known, str) for known in self.lanes)
        return not isinstance(of, str) and scalars >= MOST_SCALARS


def point_of(rule: str, step: Step, verdict: Verdict, status: RuleStatus) -> Point | None:
    """Return the point of a verdict; None if the rule does not apply to the step."""
    if verdict.outcome is Outcome.NOT_APPLICABLE or step.tick:
        return None
    found = _FOUND.get(verdict.outcome)
    if found is None:
        found = FIRING if status is RuleStatus.ISSUES_FOUND else VIOLATION
    if (measure := verdict.measure) is None:
        return Point(rule, step.step, found)
    value, limit = _finite(measure.value), _finite(measure.limit)
    return Point(rule, step.step, found, value, limit, measure.side == "below")


def scalars_of(step: Step, tensors: Iterable[Tensor]) -> list[Point]:
    """Return the losses, metrics and learning rates among the tensors of a step, losses first."""
    found: list[Point] = []
    for tensor in tensors:
        kind = SCALARS.get(tensor.role)
        if kind is not None and tensor.summary.size in (None, 1):
            name = cut(tensor.name, _MOST_NAME)
            of = (kind, step.mode.name, name, cut(tensor.worker, _MOST_NAME))
            found.append(Point(of, step.step, value=_finite(tensor.summary.mean)))
    return sorted(found, key=lambda point: point.of[0] != "loss")


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


class _StoredLane(msgspec.Struct, array_like=True):
    of: str | Scalar
    below: bool
    steps: bytes
    found: bytes
    numbers: tuple[bytes, bytes, bytes, bytes]


class _Stored(msgspec.Struct):
    version: int
    lanes: list[_StoredLane]


_decoder = msgspec.msgpack.Decoder(_Stored)


def encode_trace(trace: Trace) -> bytes:
    lanes = [
        _StoredLane(of, lane.below, lane.steps.tobytes(), bytes(lane.found), _bytes(lane._numbers))
        for of, lane in trace.lanes.items()
    ]
    return zlib.compress(msgspec.msgpack.encode(_Stored(_VERSION, lanes)), level=1)


def decode_trace(data: bytes, most: int | None = MOST_POINTS) -> Trace:
    """Raises ValueError on what is not a trace of this version."""
    try:
        stored = _decoder.decode(zlib.decompressobj().decompress(data, MOST_BYTES))
        if stored.version != _VERSION:
            raise ValueError(f"version {stored.version}, not {_VERSION}")
        return Trace(most, {each.of: _lane(each) for each in stored.lanes})
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(f"not a trace: {error}") from error


def _lane(stored: _StoredLane) -> Lane:
    steps, found = array("q", stored.steps), bytearray(stored.found)
    values, low, high, limits = (array("d", column) for column in stored.numbers)
    if any(len(column) != len(steps) for column in (found, values, low, high, limits)):
        raise ValueError("not a trace: its columns differ in length")
    return Lane(stored.below, steps, found, values, low, high, limits)


def _bytes(columns: tuple[array[float], ...]) -> Any:
    return tuple(column.tobytes() for column in columns)
