"""A run in memory from the scalars of a history: whatever reads runs reads histories then."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from tocsin.histories.names import role_of, with_phase_first
from tocsin.histories.scalar import BadHistory, Note, Reader, Scalar
from tocsin.model import Mode, Role
from tocsin.tensors import Captured, MemoryStorage, RunWriter, Storage, summarize
from tocsin.words import clean

_MOST_VALUES = 1_000_000
_MOST_NAMES = 2000
_LONGEST_NAME = 1000
_LAST_STEP = 10**11

_Values = dict[int, dict[str, tuple[float, float | None]]]


def as_run(path: Path, reader: Reader, note: Note, losses: Collection[str] = ()) -> Storage:
    """The history at ``path`` as a run that has ended, under the path as its URL.

    losses: names of scalars that are losses, and the only ones; by default the names decide.
    Every step has mode GLOBAL, since a history has numbers of training and evaluation at the same
    step; the names say which are of an evaluation. Raises BadHistory and OSError.
    """
    steps = _collected(path, reader(path, note), note)
    names = sorted({name for values in steps.values() for name in values})
    roles = _roles(path, names, losses)
    storage = MemoryStorage(str(path.resolve()))
    modified, now = path.stat().st_mtime, time.time()
    writer = RunWriter(storage, run_id="history")
    latest = -math.inf
    for step in sorted(steps):
        values = steps[step]
        known = [t for _, t in values.values() if t is not None and 0 < t <= now]
        latest = max(latest, *known) if known else latest
        storage.written_at = latest if math.isfinite(latest) else modified
        tensors = (_captured(with_phase_first(n), v, roles[n]) for n, (v, _) in values.items())
        writer.write(step, Mode.GLOBAL, step, {tensor.name: tensor for tensor in tensors}.values())
    writer.write_collections([])
    writer.close()
    return storage


def _captured(name: str, value: float, role: Role) -> Captured:
    scalar = np.array(value)
    return Captured(name, scalar, role=role, summary=summarize(scalar))


def _collected(path: Path, scalars: Iterable[Scalar], note: Note) -> _Values:
    """The values by step and name. Raises BadHistory where there are none, or too many."""
    steps: _Values = {}
    names: set[str] = set()
    count = refused = 0
    for name, step, value, wall_time in scalars:
        if not 0 <= step < _LAST_STEP or not 0 < len(name) <= _LONGEST_NAME:
            refused += 1
            continue
        at = steps.setdefault(step, {})
        count += name not in at
        names.add(name)
        at[name] = value, wall_time
        if count > _MOST_VALUES or len(names) > _MOST_NAMES:
            raise BadHistory(
                f"{path} has more than {_MOST_VALUES:,} values or {_MOST_NAMES:,} names: "
                "export the losses and metrics only"
            )
    if not steps:
        raise BadHistory(f"{path}: no scalar: a number with a name and a step from 0 on")
    if refused:
        note(f"{path}: skipped {refused:,} values with a step below 0 or a name too long")
    return steps


def _roles(path: Path, names: Iterable[str], losses: Collection[str]) -> dict[str, Role]:
    known = {name: role_of(name) for name in names}
    shown = clean(", ".join(known), 200)
    for name in losses:
        if name not in known:
            raise BadHistory(f"{path}: no scalar {name!r} for --loss; there are: {shown}")
    if losses:
        others = {n: Role.METRIC if role is Role.LOSS else role for n, role in known.items()}
        return others | dict.fromkeys(losses, Role.LOSS)
    if Role.LOSS not in known.values():
        raise BadHistory(f"{path}: no loss of a training: name it with --loss NAME, of: {shown}")
    return known
