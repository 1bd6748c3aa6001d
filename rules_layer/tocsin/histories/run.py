"""A run in memory from the scalars of a history: whatever reads runs reads histories then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tocsin.histories.columns import Columns, columns_of, without_rounded_rates
from tocsin.histories.described import described, numbered
from tocsin.histories.layout import BY_ROW
from tocsin.histories.machine import (
    LENGTH,
    MEASURED,
    MINUTE,
    Measured,
    length_of,
    measured_columns,
)
from tocsin.histories.names import is_loss, kind_of_losses, role_of, with_phase_first
from tocsin.histories.scalar import BadHistory, Note, Reader, Scalar
from tocsin.histories.trainings import Training, trainings
from tocsin.model import Mode, Role
from tocsin.tensors import WATCH, Captured, MemoryStorage, RunWriter, Storage, summarize
from tocsin.words import clean

QUIET = 5.0  # seconds without a new value after which the newest step counts as whole
_MOST_VALUES = 1_000_000
_MOST_NAMES = 2000
_LONGEST_NAME = 1000
_LAST_STEP = 10**11

_Values = dict[str, tuple[float, float | None]]  # name -> value, time


@dataclass(frozen=True)
class Choices:
    """The user's answers where the names and columns of a history are ambiguous.

    losses: names of scalars that are losses, and the only ones; empty: the names decide.
    step: the column that counts steps, or ``row``; None: the columns decide.
    training: the number or the name of one of several trainings; None: the last.
    """

    losses: tuple[str, ...] = ()
    step: str | None = None
    training: str | None = None


BY_NAMES = Choices()


Configure = Callable[[Columns], bytes]
"""Gives a history its own ``watch.json``."""


def as_run(
    reader: Reader,
    note: Note,
    choices: Choices = BY_NAMES,
    read_as: Note | None = None,
    configure: Configure | None = None,
) -> Storage:
    """Return the history of ``reader`` as a run that has ended, under the history's path as its
    URL.

    configure: gives it rules that fit its columns.
    read_as: gets the line that says how the history was read; None: ``note`` gets it, too.
    Every step has mode GLOBAL, since a history has numbers of training and evaluation at the same
    step; the names say which are of an evaluation. Raises BadHistory and OSError.
    """
    run = HistoryRun(reader, note, choices, configure)
    run.finish(read_as or note)
    return run.storage


class HistoryRun:
    """The run of a history in memory. ``refresh`` adds new rows.

    A step is written when a later one has begun, or nothing came for ``QUIET`` seconds. A value
    that comes after that goes to the next step. If its name was at a later step already, the
    training has begun again there, and so does the run.
    """

    def __init__(
        self,
        reader: Reader,
        note: Note,
        choices: Choices = BY_NAMES,
        configure: Configure | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.storage = MemoryStorage(str(reader.path.resolve()), is_history=True)
        self._reader, self._note, self._choices, self._now = reader, note, choices, now
        self._writer = RunWriter(self.storage, run_id=uuid4().hex)
        self._writer.write_collections([])
        self._configure = configure
        self._steps: dict[int, _Values] = {}  # that are not written yet
        self._late: _Values = {}
        self._roles: dict[str, Role] = {}
        self._measured: Mapping[str, Measured] = {}  # columns about the machine
        self._kind: str | None = None  # of the losses
        self._last: dict[str, int] = {}  # name -> the step that it was recorded at last
        self._written = -1
        self._latest = -math.inf  # time of a step
        self._found = math.nan  # when values without a time were found; not known at first
        self._grown = -math.inf  # when a value was found last
        self._count = 0

    def refresh(self) -> None:
        """Read new rows, and write complete steps. Raises BadHistory and OSError."""
        scalars = [*self._valid(self._reader.read(self._note, growing=True))]
        if not self._roles:
            self._measured = measured_columns(scalars)
        if self._add(scalars):
            self._configured(scalars, finished=False)
            self._found = self._now() if self._grown > 0 else self._found
            self._grown = self._now()
        is_quiet = self._now() - self._grown >= QUIET
        self._write(sorted(self._steps)[: None if is_quiet else -1])

    def finish(self, read_as: Note) -> None:
        """Read and write all steps and the end. ``read_as`` gets the description of the format.

        Raises BadHistory where there is no loss.
        """
        scalars = [*self._valid(self._reader.read(self._note))]
        path = self._reader.path
        if not scalars:
            raise BadHistory(f"{path}: no scalar: a number with a name and a step from 0 on")
        self._measured = measured_columns(scalars)
        roles = self._decided({scalar.name for scalar in scalars})
        found = trainings(
            scalars,
            lambda name: roles[name] is Role.LOSS,
            by_order=self._choices.step == BY_ROW,
        )
        chosen = _chosen(path, found, self._choices.training)
        read_as(described(self._reader, chosen, found, roles))
        self._configured(chosen.scalars, finished=True)
        self._add(without_rounded_rates(chosen.scalars, roles))
        self._write(sorted(self._steps))
        self._writer.close()

    def _configured(self, scalars: Sequence[Scalar], *, finished: bool) -> None:
        """Writes the history's own configuration, once."""
        if self._configure is not None:
            counter = self._reader.describe()[1]
            columns = columns_of(scalars, counter, self._measured, finished=finished)
            self.storage.write(WATCH, self._configure(columns))
            self._configure = None

    def _decided(self, names: Collection[str]) -> dict[str, Role]:
        """Return the roles of all names. Without a training loss, evaluation losses count."""
        _check_losses(self._reader.path, names, self._choices.losses)
        self._roles = {name: self._role(name) for name in names}
        if Role.LOSS not in self._roles.values():
            instead = [name for name in names if is_loss(name)]
            if not instead:
                shown = clean(", ".join(sorted(names)), 200)
                raise BadHistory(
                    f"{self._reader.path}: no training loss: name one with --loss NAME, of: {shown}"
                )
            self._roles |= dict.fromkeys(instead, Role.LOSS)
        return self._roles

    def _valid(self, scalars: Iterable[Scalar]) -> Iterable[Scalar]:
        """The scalars that a run can have. Raises BadHistory where there are too many."""
        refused, names = 0, set(self._roles)
        for scalar in scalars:
            if not 0 <= scalar.step < _LAST_STEP or not 0 < len(scalar.name) <= _LONGEST_NAME:
                refused += 1
                continue
            self._count += 1
            names.add(scalar.name)
            if self._count > _MOST_VALUES or len(names) > _MOST_NAMES:
                raise BadHistory(
                    f"{self._reader.path} has more than {_MOST_VALUES:,} values or "
                    f"{_MOST_NAMES:,} names: export the losses and metrics only"
                )
            yield scalar
        if refused:
            path = self._reader.path
            self._note(f"{path}: skipped {refused:,} values with a step below 0 or a name too long")

    def _add(self, scalars: Iterable[Scalar]) -> int:
        """The number of values that were added."""
        added = 0
        for name, step, value, wall_time, *_ in scalars:
            added += 1
            if step <= self._written and self._last.get(name, -1) > step:
                self._begin_again(step)
            is_late = step <= self._written
            at = self._late if is_late else self._steps.setdefault(step, {})
            at[name] = value, wall_time
            self._last[name] = step
            if name not in self._roles:
                self._roles[name] = self._role(name)
        self._kind = kind_of_losses(self._roles) if added else self._kind
        return added

    def _begin_again(self, step: int) -> None:
        """Another start of the training, which resumed from the step before."""
        self._steps, self._late, self._last = {}, {}, {}
        self._written = step - 1
        self._writer = RunWriter(
            self.storage,
            run_id=uuid4().hex,
            resumed_from=step - 1 if step else None,
            started=self._now(),
        )

    def _write(self, steps: Iterable[int]) -> None:
        for step in steps:
            values = self._late | self._steps.pop(step)
            self._late = {}
            self.storage.written_at = self._time_of(values)
            tensors = (self._captured(n, v) for n, (v, _) in values.items())
            named = {tensor.name: tensor for tensor in (*tensors, *self._length(values))}
            self._writer.write(step, Mode.GLOBAL, step, named.values())
            self._written = step

    def _time_of(self, values: _Values) -> float:
        """The time of a step in seconds since the epoch; it never goes back."""
        now = self._now()
        given = [t for _, t in values.values() if t is not None and 0 < t <= now] or [self._found]
        self._latest = max(self._latest, *(t for t in given if not math.isnan(t)), -math.inf)
        return self._latest if math.isfinite(self._latest) else self._reader.path.stat().st_mtime

    def _role(self, name: str) -> Role:
        if name in self._measured and name not in self._choices.losses:
            return self._measured[name].role
        role = role_of(name)
        if not self._choices.losses:
            return role
        is_loss = name in self._choices.losses
        return Role.LOSS if is_loss else Role.METRIC if role is Role.LOSS else role

    def _captured(self, name: str, value: float) -> Captured:
        role = self._roles[name]
        kind = self._kind if role is Role.LOSS and not self._choices.losses else None
        shown = with_phase_first(name)
        if role not in MEASURED:
            return _number(shown, np.array(value), role, kind)
        measured = self._measured[name]
        return _number(shown, np.array([value * measured.factor]), role, measured.kind)

    def _length(self, values: _Values) -> Iterator[Captured]:
        """The seconds that a step took, as rules ask a minute of a machine for its length."""
        if seconds := length_of(
            {name: value for name, (value, _) in values.items()}, self._measured
        ):
            yield _number(LENGTH, np.array([seconds]), Role.SYSTEM, MINUTE)


def _number(name: str, value: NDArray[Any], role: Role, kind: str | None) -> Captured:
    """A number in the index file, which is read and written faster than with an event file."""
    summary = summarize(value, fingerprint=False)
    return Captured(name, role=role, kind=kind, summary=summary, inline=value)


def _chosen(path: Path, found: Sequence[Training], training: str | None) -> Training:
    if training is None:
        return found[-1]
    for at, each in enumerate(found, 1):
        if training in (str(at), each.name):
            return each
    shown = clean(", ".join(numbered(found)), 200)
    raise BadHistory(f"{path}: no training {training!r} for --training; there are: {shown}")


def _check_losses(path: Path, names: Collection[str], losses: Collection[str]) -> None:
    shown = clean(", ".join(sorted(names)), 200)
    for name in losses:
        if name not in names:
            raise BadHistory(f"{path}: no scalar {name!r} for --loss; there are: {shown}")
