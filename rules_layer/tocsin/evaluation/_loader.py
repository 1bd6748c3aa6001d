"""A step's tensors, each fetched at most once, as every rule sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.evaluation._frontier import Ready
from tocsin.evaluation._reductions import FIELDS, reduced
from tocsin.evaluation._selection import Chosen, Selection
from tocsin.model import TensorSummary
from tocsin.rules import Read, Step, Tensor
from tocsin.tensors import (
    Entry,
    IndexFile,
    Storage,
    Unreadable,
    parse_reduction,
    read_values,
    summarize,
)

STEP_BYTES = 256 << 20  # of tensor values that one step may make the evaluation read
_THREADS = 16

Values = Mapping[str, NDArray[Any] | Unreadable]


@dataclass(frozen=True)
class Loaded:
    """A step as each rule sees it, by configuration name; what could not be read, and why."""

    steps: Mapping[str, Step]
    bytes_read: int
    unreadable: tuple[str, ...]


@dataclass(frozen=True)
class _Wanted:
    """The tensors that rules want of one worker's file, and whose values must be fetched."""

    file: IndexFile
    entries: tuple[tuple[Entry, Chosen], ...]
    reductions: Mapping[str, Mapping[str, Entry]]  # tensor → summary field → where it lies
    fetch: tuple[Entry, ...]

    @property
    def size(self) -> int:
        return sum(entry.length or 0 for entry in self.fetch)


def load(ready: Ready, selection: Selection, storage: Storage) -> Loaded:
    """Fetch and reduce what the rules read of a step that has at least one file."""
    unreadable: list[str] = []
    wanted: list[_Wanted] = []
    for item in (_wanted(seen.file, selection) for seen in ready.files):
        if sum(other.size for other in [*wanted, item]) > STEP_BYTES:
            unreadable.append(f"{item.file.worker}: more than {STEP_BYTES} bytes to read")
            item = replace(item, fetch=())
        wanted.append(item)
    reads: dict[str, dict[str, list[Tensor]]] = {
        rule.name: {name: [] for name in rule.reads.tensors} for rule in selection.watched
    }
    for item, values in zip(wanted, _fetch(storage, wanted), strict=True):
        unreadable += [
            f"{item.file.worker}, {name}: {value}"
            for name, value in values.items()
            if isinstance(value, Unreadable)
        ]
        for tensor, chosen in _tensors(item, values, selection):
            for rule, name, read in chosen:
                seen = tensor if read.values else replace(tensor, value=None)
                reads[rule.name][name].append(seen)
    first = ready.files[0].file
    step = Step(ready.step, first.mode, first.mode_step, max(seen.modified for seen in ready.files))
    return Loaded(
        {
            rule: replace(step, tensors={name: tuple(found) for name, found in by_read.items()})
            for rule, by_read in reads.items()
        },
        sum(item.size for item in wanted),
        tuple(f"step {ready.step}, {what}" for what in unreadable),
    )


def _wanted(file: IndexFile, selection: Selection) -> _Wanted:
    entries: dict[str, Entry] = {}
    reductions: dict[str, dict[str, Entry]] = {}
    for entry in file.entries:
        if (reduction := parse_reduction(entry.name)) is None:
            entries[entry.name] = entry
        elif reduction[0] in FIELDS and entry.start is not None:
            reductions.setdefault(reduction[1], {})[reduction[0]] = entry
    for name in reductions:
        entries.setdefault(name, Entry(name=name))
    chosen = [(entry, selection.reads(entry)) for entry in entries.values()]
    fetch: list[Entry] = []
    for entry, by in chosen:
        if entry.start is not None:
            fetch += [entry] * any(_needs_value(read, entry) for _, _, read in by)
        elif by:
            fetch += reductions.get(entry.name, {}).values()
    return _Wanted(file, tuple(pair for pair in chosen if pair[1]), reductions, tuple(fetch))


def _needs_value(read: Read, entry: Entry) -> bool:
    if read.values or entry.summary is None:
        return True
    return any(getattr(entry.summary, name) is None for name in read.fields)


def _fetch(storage: Storage, wanted: list[_Wanted]) -> Iterator[Values]:
    """The values of each file's wanted tensors, the files at once."""

    def values(item: _Wanted) -> Values:
        names = [entry.name for entry in item.fetch]
        return read_values(storage, item.file, names) if names else {}

    if sum(bool(item.fetch) for item in wanted) < 2:
        yield from map(values, wanted)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(values, wanted)


def _tensors(
    item: _Wanted, values: Values, selection: Selection
) -> Iterator[tuple[Tensor, Chosen]]:
    for entry, chosen in item.entries:
        value = values.get(entry.name)
        summary = entry.summary or TensorSummary()
        if isinstance(value, np.ndarray):
            summary = _completed(summary, summarize(value))
        elif entry.name in item.reductions:
            parts = item.reductions[entry.name].items()
            known = {field: _number(values.get(part.name)) for field, part in parts}
            summary = _completed(
                summary, reduced({k: v for k, v in known.items() if v is not None})
            )
        yield (
            Tensor(
                name=entry.name,
                worker=item.file.worker,
                summary=summary,
                shape=value.shape if isinstance(value, np.ndarray) else entry.shape,
                dtype=str(value.dtype) if isinstance(value, np.ndarray) else entry.dtype,
                role=selection.role(entry),
                kind=entry.kind,
                value=value if isinstance(value, np.ndarray) else None,
            ),
            chosen,
        )


def _completed(captured: TensorSummary, computed: TensorSummary) -> TensorSummary:
    """What was captured with the tensor, and for what wasn't, what its value gives."""
    known = {k: v for k, v in msgspec.structs.asdict(captured).items() if v is not None}
    return msgspec.structs.replace(computed, **known)


def _number(value: NDArray[Any] | Unreadable | None) -> float | None:
    """A stored reduction's one number."""
    if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype.kind not in "fiub":
        return None
    return float(value.reshape(-1)[0])
