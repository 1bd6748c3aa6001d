"""Divides a history into trainings, and gives each value a unique step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tocsin.histories.scalar import Scalar
from tocsin.words import clean

_UNSORTED = 0.25  # of the values that go back: the history is not in order
_SPANS = 0.8  # of a history, by what all its trainings record
_FEW = 0.05  # of the values of a name that repeat a step
_START = 0.1  # of its steps, up to which a training begins again rather than resumes


@dataclass
class Training:
    """The scalars of a training.

    resumed: the steps at which it went on from an earlier one; what came after is left out.
    """

    name: str
    scalars: list[Scalar] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def steps(self) -> tuple[int, int]:
        steps = [scalar.step for scalar in self.scalars]
        return min(steps), max(steps)


def trainings(
    scalars: Sequence[Scalar], is_main: Callable[[str], bool], *, by_order: bool = False
) -> list[Training]:
    """Return the trainings of a history, in the order in which they were recorded.

    is_main: whether a name is of a loss of training, which is recorded in all of it.
    by_order: whether the values of a name are numbered, instead of their steps.
    """
    named: dict[str, list[Scalar]] = {}
    for scalar in scalars:
        named.setdefault(scalar.training, []).append(scalar)
    found: list[Training] = []
    for name, group in named.items():
        parts = [*_restarts(group, is_main, by_order)]
        for at, part in enumerate(parts):
            part.name = name if len(parts) == 1 or not name else f"{name} {at + 1}"
        found += parts
    return found


def _restarts(
    scalars: Sequence[Scalar], is_main: Callable[[str], bool], by_order: bool
) -> Iterator[Training]:
    reference = _reference(scalars, is_main)
    recorded = [scalar for scalar in scalars if scalar.name == reference]
    own = [scalar.step for scalar in recorded]
    if by_order or _repeats(recorded):
        numbered = Training("", [*_numbered(scalars)])
        if not by_order:
            numbered.left_out.append("steps that repeat: values are numbered in their order")
        yield numbered
        return
    back = sum(after < before for before, after in pairwise(own))
    if back > _UNSORTED * len(own) and len({*own}) == len(own):
        yield _in_order(Training("", [*scalars]))
        return
    training, last = Training(""), None
    for scalar in scalars:
        if scalar.name == reference:
            if last is not None and scalar.step < last:
                row = _taken_back(training, scalar.step)
                first = next(s.step for s in training.scalars if s.name == reference)
                top = max(s.step for s in training.scalars if s.name == reference)
                if scalar.step <= first + _START * (top - first):
                    yield _in_order(training)
                    training = Training("")
                else:
                    _resume(training, scalar.step)
                training.scalars += row
            last = scalar.step
        training.scalars.append(scalar)
    yield _in_order(training)


def _taken_back(training: Training, step: int) -> list[Scalar]:
    """Takes from a training what stands before the first value of the next one in its row."""
    row: list[Scalar] = []
    while training.scalars and training.scalars[-1].step == step:
        row.insert(0, training.scalars.pop())
    return row


def _resume(training: Training, step: int) -> None:
    """Drop values after the step from which a training resumed."""
    training.resumed.append(step)
    training.scalars = [scalar for scalar in training.scalars if scalar.step < step]


def _reference(scalars: Sequence[Scalar], is_main: Callable[[str], bool]) -> str:
    """Return the name whose steps go back the least: it shows restarts."""
    places: dict[str, list[int]] = defaultdict(list)
    for at, scalar in enumerate(scalars):
        places[scalar.name].append(at)
    most = max(map(len, places.values()))
    main = [name for name in places if is_main(name)] or [*places]

    def rank(name: str) -> tuple[bool, int, int]:
        own = places[name]
        spans = own[-1] - own[0] >= _SPANS * (len(scalars) - 1) and len(own) >= min(3, most)
        steps = [scalars[at].step for at in own]
        back = sum(after < before for before, after in pairwise(steps))
        return not spans, back, -len(own)

    return min(main, key=rank)


def _repeats(scalars: Sequence[Scalar]) -> bool:
    """Return whether a name was recorded again and again at the step before, with other values.

    A row without a step of its own does not count.
    """
    equal = sum(
        after.step == before.step and after.value != before.value and not after.borrowed
        for before, after in pairwise(scalars)
    )
    return equal > max(2, _FEW * len(scalars))


def _numbered(scalars: Sequence[Scalar]) -> Iterator[Scalar]:
    count: Counter[str] = Counter()
    for scalar in scalars:
        yield scalar._replace(step=count[scalar.name])
        count[scalar.name] += 1


def _in_order(training: Training) -> Training:
    """Gives each name at most one value a step, the last, and leaves out names that begin again
    while the training goes on."""
    by_name: dict[str, dict[int, Scalar]] = defaultdict(dict)
    again: Counter[str] = Counter()
    borrowed = 0
    for scalar in training.scalars:
        values = by_name[scalar.name]
        if scalar.step in values:
            if scalar.borrowed:
                borrowed += 1
                continue
            again[scalar.name] += values[scalar.step].value != scalar.value
        values[scalar.step] = scalar
    lost = [n for n, count in again.items() if count > max(2, _FEW * (count + len(by_name[n])))]
    if len(lost) < len(by_name):
        for name in lost:
            del by_name[name], again[name]
            what = f"{clean(name, 40)} (its steps repeat while the training continues)"
            training.left_out.append(what)
    if repeated := again.total():
        count = "1 value" if repeated == 1 else f"{repeated:,} values"
        training.left_out.append(f"{count} recorded again at the same step: the last counts")
    if borrowed:
        training.left_out.append(f"{borrowed:,} values of rows without a step")
    training.scalars = sorted(
        (scalar for values in by_name.values() for scalar in values.values()),
        key=lambda scalar: scalar.step,
    )
    return training
