"""A run in memory from the scalars of a history: whatever reads runs reads histories then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from uuid import uuid4

import numpy as np

from tocsin.histories.names import role_of, with_phase_first
from tocsin.histories.scalar import BadHistory, Note, Reader, Scalar
from tocsin.model import Mode, Role
from tocsin.tensors import Captured, MemoryStorage, RunWriter, Storage, summarize
from tocsin.words import clean

QUIET = 5.0  # seconds without a new value after which the newest step counts as whole
_MOST_VALUES = 1_000_000
_MOST_NAMES = 2000
_LONGEST_NAME = 1000
_LAST_STEP = 10**11

_Values = dict[str, tuple[float, float | None]]  # name -> value, time


def as_run(reader: Reader, note: Note, losses: Collection[str] = ()) -> Storage:
    """The history of ``reader`` as a run that has ended, under the history's path as its URL.

    losses: names of scalars that are losses, and the only ones; by default the names decide.
    Every step has mode GLOBAL, since a history has numbers of training and evaluation at the same
    step; the names say which are of an evaluation. Raises BadHistory and OSError.
    """
    run = HistoryRun(reader, note, losses)
    run.finish()
    return run.storage


class HistoryRun:
    """The run of a history that may grow, in memory. ``refresh`` adds what is new.

    A step is written when a later one has begun, or nothing came for ``QUIET`` seconds. A value
    that comes after that goes to the next step. If its name was at a later step already, the
    training has begun again there, and so does the run.
    """

    def __init__(
        self,
        reader: Reader,
        note: Note,
        losses: Collection[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self.storage = MemoryStorage(str(reader.path.resolve()))
        self._reader, self._note, self._losses, self._now = reader, note, losses, now
        self._writer = RunWriter(self.storage, run_id=uuid4().hex)
        self._writer.write_collections([])
        self._steps: dict[int, _Values] = {}  # that are not written yet
        self._late: _Values = {}
        self._roles: dict[str, Role] = {}
        self._last: dict[str, int] = {}  # name -> the step that it was recorded at last
        self._written = -1
        self._latest = -math.inf  # time of a step
        self._found = math.nan  # when values without a time were found; not known at first
        self._grown = -math.inf  # when a value was found last
        self._count = 0

    def refresh(self) -> None:
        """Reads what is new, and writes the steps that are whole. Raises BadHistory and OSError."""
        if self._add(self._reader.read(self._note, growing=True)):
            self._found = self._now() if self._grown > 0 else self._found
            self._grown = self._now()
        is_quiet = self._now() - self._grown >= QUIET
        self._write(sorted(self._steps)[: None if is_quiet else -1])

    def finish(self) -> None:
        """Reads and writes all, and the end. Raises BadHistory where there is no loss."""
        self._add(self._reader.read(self._note))
        if not self._steps:
            raise BadHistory(
                f"{self._reader.path}: no scalar: a number with a name and a step from 0 on"
            )
        _check_losses(self._reader.path, self._roles, self._losses)
        self._write(sorted(self._steps))
        self._writer.close()

    def _add(self, scalars: Iterable[Scalar]) -> int:
        """The number of values that were added. Raises BadHistory where there are too many."""
        added = refused = 0
        for name, step, value, wall_time in scalars:
            if not 0 <= step < _LAST_STEP or not 0 < len(name) <= _LONGEST_NAME:
                refused += 1
                continue
            added += 1
            if step <= self._written and self._last.get(name, -1) > step:
                self._begin_again(step)
            is_late = step <= self._written
            at = self._late if is_late else self._steps.setdefault(step, {})
            self._count += name not in at
            at[name] = value, wall_time
            self._last[name] = step
            if name not in self._roles:
                self._roles[name] = self._role(name)
            if self._count > _MOST_VALUES or len(self._roles) > _MOST_NAMES:
                raise BadHistory(
                    f"{self._reader.path} has more than {_MOST_VALUES:,} values or "
                    f"{_MOST_NAMES:,} names: export the losses and metrics only"
                )
        if refused:
            path = self._reader.path
            self._note(f"{path}: skipped {refused:,} values with a step below 0 or a name too long")
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
            tensors = (
                _captured(with_phase_first(n), v, self._roles[n]) for n, (v, _) in values.items()
            )
            named = {tensor.name: tensor for tensor in tensors}
            self._writer.write(step, Mode.GLOBAL, step, named.values())
            self._written = step

    def _time_of(self, values: _Values) -> float:
        """The time of a step in seconds since the epoch; it never goes back."""
        now = self._now()
        given = [t for _, t in values.values() if t is not None and 0 < t <= now] or [self._found]
        self._latest = max(self._latest, *(t for t in given if not math.isnan(t)), -math.inf)
        return self._latest if math.isfinite(self._latest) else self._reader.path.stat().st_mtime

    def _role(self, name: str) -> Role:
        role = role_of(name)
        if not self._losses:
            return role
        is_loss = name in self._losses
        return Role.LOSS if is_loss else Role.METRIC if role is Role.LOSS else role


def _captured(name: str, value: float, role: Role) -> Captured:
    scalar = np.array(value)
    return Captured(name, scalar, role=role, summary=summarize(scalar))


def _check_losses(path: Path, roles: dict[str, Role], losses: Collection[str]) -> None:
    shown = clean(", ".join(sorted(roles)), 200)
    for name in losses:
        if name not in roles:
            raise BadHistory(f"{path}: no scalar {name!r} for --loss; there are: {shown}")
    if Role.LOSS not in roles.values():
        raise BadHistory(f"{path}: no loss of a training: name it with --loss NAME, of: {shown}")
