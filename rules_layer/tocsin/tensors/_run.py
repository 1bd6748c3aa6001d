"""A whole run, as it lies in its storage."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from tocsin.model import Mode
from tocsin.tensors._collections import BadCollections, Collections, read_collections
from tocsin.tensors._completeness import complete_steps
from tocsin.tensors._end import End, read_end
from tocsin.tensors._event import Unreadable
from tocsin.tensors._index import IndexFile, index_objects, read_index
from tocsin.tensors._layout import COLLECTIONS, END_MARKER, job_name, parse_index_key
from tocsin.tensors._local import LocalStorage
from tocsin.tensors._starts import Starts, starts_of
from tocsin.tensors._storage import NotFound, Object, RefusedFile, Storage
from tocsin.tensors._values import Value, read_values

_READERS = 16


class NotARun(ValueError):
    """The place holds no run."""


class Run:
    """What a run holds at the moment of construction; make another to see what is new.

    Every index file is read once, at the first question that needs one. Damage stays where it
    is: ``damaged`` names each file that cannot be used, with the reason, and the rest is there.
    If a job was started several times, the last start counts, with the steps that it resumed from.
    Raises NotARun for a place without index and collections files.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._damaged: dict[str, str] = {}
        try:  # the marker first: once it is there, the list behind it is all there will be
            self._end = self._read_end()
            self._objects = list(index_objects(storage))
            is_run = bool(self._objects) or any(True for _ in storage.list(COLLECTIONS))
        except NotFound:  # the bucket
            is_run = False
        if not is_run:
            raise NotARun(f"{storage.url} is not a run: it has neither index/ nor collections/")
        self.collections = self._read_collections()

    @property
    def url(self) -> str:
        return self.storage.url

    @property
    def job(self) -> str:
        """The name of the training job."""
        return job_name(self.url)

    @cached_property
    def finished(self) -> bool:
        """Whether the run has its end marker, and not one of an earlier start only."""
        newest = max((found.modified for found in self._objects), default=0.0)
        if self._end is None or self._end.ends((), newest):
            return self._end is not None
        return self._end.ends(self._starts.current, newest)

    @property
    def damaged(self) -> Mapping[str, str]:
        """Key -> reason, for every index and collections file and marker that cannot be used."""
        self._files  # noqa: B018 - reading them finds the damage
        return dict(sorted(self._damaged.items()))

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers that have written anything, in the order of their names."""
        declared = self.collections.workers if self.collections else ()
        return tuple(sorted({*declared, *(w for present in self._files.values() for w in present)}))

    @property
    def num_workers(self) -> int:
        """How many workers the run has: as declared, else as many as have written."""
        return self.collections.num_workers if self.collections else max(1, len(self.workers))

    def steps(self, mode: Mode = Mode.GLOBAL, *, incomplete: bool = False) -> list[int]:
        """Complete steps, or all: global ones for GLOBAL, else the mode's own numbers."""
        known = sorted(self._files) if incomplete else self._complete
        steps = [step for step in known if self.indexes(step)]
        if mode is Mode.GLOBAL:
            return steps
        own = (self.mode(step) for step in steps)
        return sorted({mode_step for found, mode_step in own if found is mode})

    def mode(self, step: int) -> tuple[Mode, int]:
        """The mode of a global step and its number there. Raises LookupError."""
        for index in self.indexes(step).values():
            return index.mode, index.mode_step
        raise LookupError(f"run {self.url} has no step {step}")

    def indexes(self, step: int) -> Mapping[str, IndexFile]:
        """Worker -> readable index file of a global step, in the order of workers."""
        present = self._files.get(step, {})
        return {worker: index for worker, index in sorted(present.items()) if index is not None}

    def values(
        self, step: int, worker: str, names: Collection[str] | None = None
    ) -> dict[str, Value]:
        """What one worker saved at a global step: arrays, or why one cannot be read."""
        index = self.indexes(step).get(worker)
        return read_values(self.storage, index, names) if index else {}

    def value(self, step: int, name: str, worker: str | None = None) -> NDArray[Any]:
        """One tensor at a global step, of the first worker that has it unless one is named.

        Raises LookupError where it was not saved, Unreadable where it cannot be read.
        """
        for candidate, index in self.indexes(step).items():
            entry = index.entry(name)
            if worker in (None, candidate) and entry is not None and entry.start is not None:
                value = read_values(self.storage, index, {name})[name]
                if isinstance(value, Unreadable):
                    raise value
                return value
        by = f" by {worker}" if worker else ""
        raise LookupError(f"no value of {name} was saved at step {step}{by} in run {self.url}")

    def _read_end(self) -> End | None:
        try:
            return read_end(self.storage)
        except RefusedFile as error:
            self._damaged[END_MARKER] = str(error)
            return None

    @cached_property
    def _files(self) -> dict[int, dict[str, IndexFile | None]]:
        files: dict[int, dict[str, IndexFile | None]] = {}
        for found, index in zip(self._objects, self._indexes, strict=True):
            place = parse_index_key(found.key)
            if place is not None and (index is None or self._starts.keeps(index)):
                files.setdefault(place[0], {})[place[1]] = index
        return files

    @cached_property
    def _starts(self) -> Starts:
        return starts_of(index for index in self._indexes if index is not None)

    @cached_property
    def _indexes(self) -> Sequence[IndexFile | None]:
        """For each of ``_objects`` what is in it, None where that cannot be used."""
        return list(self._read_indexes())

    def _read_indexes(self) -> Iterable[IndexFile | None]:
        if isinstance(self.storage, LocalStorage):  # threads would only stand in each other's way
            return map(self._read_index, self._objects)
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(self._read_index, self._objects))

    @cached_property
    def _complete(self) -> list[int]:
        return complete_steps(self._files, self.num_workers, finished=self.finished)

    def _read_index(self, found: Object) -> IndexFile | None:
        try:
            return read_index(self.storage, found)
        except (ValueError, NotFound) as error:
            self._damaged[found.key] = str(error)
            return None

    def _read_collections(self) -> Collections | None:
        try:
            return read_collections(self.storage)
        except BadCollections as error:
            self._damaged[COLLECTIONS] = str(error)
            return None
