"""The history of a run: its index files as columns, one matrix for files of the same tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode, Role
from tocsin.tensors import (
    BadCollections,
    BadIndex,
    Collections,
    Entry,
    LocalStorage,
    NotFound,
    Object,
    RefusedFile,
    RunMeta,
    Starts,
    Storage,
    Unreadable,
    index_objects,
    parse_index_key,
    read_collections,
    read_index,
    read_values,
    starts_of,
    summarize,
)
from tocsin.tensors.columns import FIELDS, IndexColumns, Place, decode_columns, numbers_of
from tocsin.watch import Selection

INDEX_BYTES = 64 << 20
RECORD_BYTES = 4 << 20  # a larger value is not read for a picture
BUDGET_BYTES = 256 << 20  # of the values of a run that has no summaries
_THREADS = 16
_AT_ONCE = 500

OnFile = Callable[[int, int], None]
"""Called with how many files have been read, and how many there are."""


@dataclass(frozen=True, eq=False)
class Saves:
    """Saves of the same tensors by one worker in one mode, in the order of steps.

    numbers: float32, (saves, FIELDS, tensors).
    """

    worker: str
    mode: Mode
    tensors: tuple[Place, ...]
    steps: NDArray[np.int64]
    numbers: NDArray[np.float32]

    def field(self, name: str) -> NDArray[np.float32]:
        """Return one of FIELDS: (saves, tensors)."""
        column: NDArray[np.float32] = self.numbers[:, FIELDS.index(name), :]
        return column


@dataclass(frozen=True)
class _Written:
    """As much of an index file as shows which start of the job wrote it."""

    step: int
    worker: str
    meta: RunMeta | None


@dataclass
class History:
    """Reads the index files of a run; ``refresh`` reads those that are new or were written again.

    most_bytes: of index files. Of more it reads each second, third … step.
    unreadable: how many index files cannot be used.
    thinned: in words, which values were left out, if any.
    every: of how many saves one was read.
    """

    storage: Storage
    most_bytes: float = math.inf
    unreadable: int = 0
    thinned: str | None = None
    every: int = 1
    _files: dict[str, tuple[tuple[float, int], IndexColumns]] = field(default_factory=dict)
    _budget: int = BUDGET_BYTES
    _selection: Selection = field(default_factory=lambda: Selection((), None))
    _collections: Collections | None = None

    def refresh(self, on_file: OnFile = lambda done, total: None) -> None:
        """Raises what the storage raises, but for files that cannot be used."""
        found = self._affordable(
            [item for item in index_objects(self.storage) if parse_index_key(item.key)]
        )
        known = self._files
        new = [
            item
            for item in found
            if item.key not in known or known[item.key][0] != (item.modified, item.size)
        ]
        for key in known.keys() - {item.key for item in found}:
            del known[key]
        self.unreadable = 0
        for done, (item, columns) in enumerate(self._read(new), 1):
            on_file(done, len(new))
            if columns is None:
                self.unreadable += 1
                known.pop(item.key, None)
            else:
                known[item.key] = (item.modified, item.size), columns
        if new:
            self.__dict__.pop("saves", None)
            self._read_collections()

    @cached_property
    def saves(self) -> tuple[Saves, ...]:
        """Return the saves that count, if the job was started several times."""
        files = [columns for _, columns in self._files.values()]
        starts = starts_of(_Written(file.step, file.worker, file.meta) for file in files)
        return tuple(_stacked(sorted(_kept(files, starts), key=lambda file: file.step)))

    @property
    def files(self) -> int:
        return len(self._files)

    @property
    def steps(self) -> list[int]:
        """The steps that any worker has saved, in order."""
        return sorted({int(step) for saves in self.saves for step in saves.steps})

    @property
    def names(self) -> list[str]:
        """The names of tensors in the order in which they were captured first."""
        return list(dict.fromkeys(place[0] for saves in self.saves for place in saves.tensors))

    @property
    def planned(self) -> int | None:
        """Return the planned number of steps, as the hook reports it."""
        metas = (columns.meta for _, columns in self._files.values())
        return max((meta.planned_steps or 0 for meta in metas if meta), default=0) or None

    @property
    def collections(self) -> Collections | None:
        return self._collections

    def place(self, tensor: Place) -> tuple[Role | None, str | None]:
        """Return the role and the kind of a tensor."""
        name, role, kind = tensor
        return self._selection.place(Entry(name=name, role=role, kind=kind))

    def _affordable(self, found: list[Object]) -> list[Object]:
        """The files of all steps, or of each k-th one."""
        self.every = max(1, math.ceil(sum(item.size for item in found) / self.most_bytes))
        if self.every == 1:
            return found
        self.thinned = f"maps show each save in {self.every}; losses and limits are whole"
        steps = {item.key: (parse_index_key(item.key) or (0, ""))[0] for item in found}
        chosen = set(sorted(set(steps.values()))[:: self.every])
        return [item for item in found if steps[item.key] in chosen]

    def _read_collections(self) -> None:
        try:
            self._collections = read_collections(self.storage)
        except (BadCollections, RefusedFile, NotFound):
            self._collections = None
        self._selection = Selection((), self._collections)

    def _read(self, objects: Sequence[Object]) -> Iterator[tuple[Object, IndexColumns | None]]:
        if isinstance(self.storage, LocalStorage):  # threads would only slow each other down
            yield from ((item, self._read_one(item)) for item in objects)
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            for begin in range(0, len(objects), _AT_ONCE):
                part = objects[begin : begin + _AT_ONCE]
                yield from zip(part, pool.map(self._read_one, part), strict=True)

    def _read_one(self, item: Object) -> IndexColumns | None:
        place = parse_index_key(item.key)
        if place is None:
            return None
        try:
            data = self.storage.read(item.key, limit=INDEX_BYTES)
            columns = decode_columns(data, *place)
        except (BadIndex, RefusedFile, NotFound, PermissionError):
            return None
        return self._with_values(item, columns) if columns.records else columns

    def _with_values(self, item: Object, columns: IndexColumns) -> IndexColumns:
        """The same with the numbers of tensors whose values were saved without a summary."""
        wanted = []
        for at, size in columns.records.items():
            if size > min(RECORD_BYTES, self._budget):
                self.thinned = "values without a summary are read up to 256 MiB"
                continue
            self._budget -= size
            wanted.append(at)
        names = {columns.tensors[at][0]: at for at in wanted}
        try:
            values = read_values(self.storage, read_index(self.storage, item), names)
        except (BadIndex, RefusedFile, NotFound, PermissionError):
            return columns
        numbers = columns.numbers.copy()
        for name, value in values.items():
            if not isinstance(value, Unreadable):
                with np.errstate(over="ignore"):
                    numbers[:, names[name]] = numbers_of(summarize(value, fingerprint=False))
        return replace(columns, numbers=numbers, records={})


def _kept(files: Iterable[IndexColumns], starts: Starts) -> Iterator[IndexColumns]:
    for file in files:
        if starts.keeps(_Written(file.step, file.worker, file.meta)):
            yield file


def _stacked(files: Iterable[IndexColumns]) -> Iterator[Saves]:
    alike: dict[tuple[object, ...], list[IndexColumns]] = {}
    for file in files:
        alike.setdefault((file.worker, file.mode, file.tensors), []).append(file)
    for group in alike.values():
        yield Saves(
            group[0].worker,
            group[0].mode,
            group[0].tensors,
            np.array([file.step for file in group], np.int64),
            np.stack([file.numbers for file in group]),
        )
