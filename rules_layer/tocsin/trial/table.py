"""The index files of a run as columns; what many of them have in common is kept once."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from sys import intern
from typing import TypeGuard

from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Entry, IndexFile, RunMeta, parse_reduction

SMALL = 64 * 1024  # a longer record is read by itself
_BLOCK = 256 * 1024
_GAP = 64 * 1024
_NOWHERE = -1

Block = tuple[int, int]
"""First byte and number of bytes of the event file that are read in one go."""


@dataclass(frozen=True, slots=True)
class Member:
    """One tensor of a layout: the entry of its own, and those of its reductions.

    Reductions are named as in ``("mean", True)`` for the mean of the absolute values.
    """

    position: int | None
    reductions: Mapping[tuple[str, bool], int]


class Layout:
    """The entries of an index file as columns, in the order of the file."""

    def __init__(
        self,
        names: tuple[str, ...],
        shapes: tuple[tuple[int, ...] | None, ...],
        originals: tuple[str | None, ...],
        dtypes: tuple[str | None, ...],
        recorded: tuple[bool, ...],
    ) -> None:
        self.names = names
        self.recorded = recorded
        self.shapes = shapes
        self.originals = originals
        self.dtypes = dtypes

    @cached_property
    def records(self) -> Mapping[str, int]:
        """Name -> position of each entry that has a record, and not a shape or summary alone."""
        return {name: p for p, name in enumerate(self.names) if self.recorded[p]}

    @cached_property
    def members(self) -> Mapping[str, Member]:
        """Tensor -> its entries; a reduction belongs to the tensor that it is of."""
        own: dict[str, int] = {}
        reductions: dict[str, dict[tuple[str, bool], int]] = {}
        for position, name in enumerate(self.names):
            reduction = parse_reduction(name)
            if reduction is None:
                own[name] = position
            else:
                kind, tensor = reduction
                bare = kind.removeprefix("abs_")
                reductions.setdefault(tensor, {})[bare, bare != kind] = position
        return {
            name: Member(own.get(name), reductions.get(name, {}))
            for name in dict.fromkeys((*own, *reductions))
        }


class Places:
    """The places of an index file's records in its event file."""

    def __init__(self, starts: Sequence[int], lengths: Sequence[int]) -> None:
        self.starts = starts
        self.lengths = lengths

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """For each entry the bytes to read for it: small neighbours share theirs."""
        blocks: list[Block] = [*zip(self.starts, self.lengths, strict=True)]
        small = [p for p, (start, length) in enumerate(blocks) if start >= 0 and length <= SMALL]
        small.sort(key=lambda position: self.starts[position])
        first = end = 0
        together: list[int] = []
        for position in small:
            start, length = blocks[position]
            reach = max(end, start + length)
            if together and (start - end > _GAP or reach - first > _BLOCK):
                _share(blocks, together, (first, end - first))
                together = []
            if not together:
                first, reach = start, start + length
            together.append(position)
            end = reach
        _share(blocks, together, (first, end - first))
        return blocks


@dataclass(frozen=True, slots=True, eq=False)
class StepFile:
    """One index file, its entries in columns."""

    step: int
    worker: str
    mode: Mode
    mode_step: int
    event_key: str | None
    meta: RunMeta | None
    layout: Layout
    places: Places
    crcs: Sequence[int | None] | None
    summaries: Sequence[TensorSummary | None] | None

    def head(self) -> IndexFile:
        """Return the index file without its entries."""
        return IndexFile(
            self.step, self.worker, self.mode, self.mode_step, self.event_key, self.meta, ()
        )

    def index(self) -> IndexFile:
        """Return the index file with its entries, but for their roles and kinds."""
        layout, places = self.layout, self.places
        entries = [
            Entry(
                name,
                places.starts[n] if layout.recorded[n] else None,
                places.lengths[n] if layout.recorded[n] else None,
                layout.shapes[n],
                layout.dtypes[n],
                crc32=None if self.crcs is None else self.crcs[n],
                summary=self.summary(n),
                original_name=layout.originals[n],
            )
            for n, name in enumerate(layout.names)
        ]
        return replace(self.head(), entries=tuple(entries))

    def has_record(self, position: int | None) -> TypeGuard[int]:
        """Return whether an entry has a record, and not a shape or a summary alone."""
        return position is not None and self.layout.recorded[position]

    def shape(self, position: int | None) -> tuple[int, ...] | None:
        return None if position is None else self.layout.shapes[position]

    def original_name(self, position: int | None) -> str | None:
        return None if position is None else self.layout.originals[position]

    def summary(self, position: int | None) -> TensorSummary | None:
        if position is None or self.summaries is None:
            return None
        return self.summaries[position]


Place = tuple[StepFile, int]
"""A step file, and the position of an entry in it that has a record."""


class Tables:
    """Makes step files, and keeps equal columns of a run's index files once."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[tuple[object, ...], ...], Layout] = {}
        self._places: dict[bytes, Places] = {}

    def step_file(self, index: IndexFile) -> StepFile:
        entries = index.entries
        crcs = [e.crc32 for e in entries]
        summaries = [e.summary for e in entries]
        return StepFile(
            index.step,
            intern(index.worker),
            index.mode,
            index.mode_step,
            index.event_key,
            index.meta,
            self._layout(entries),
            self._place(entries),
            crcs if crcs.count(None) < len(crcs) else None,
            summaries if summaries.count(None) < len(summaries) else None,
        )

    def _layout(self, entries: Sequence[Entry]) -> Layout:
        names = tuple([e.name for e in entries])
        shapes = tuple([e.shape for e in entries])
        originals = tuple([e.original_name for e in entries])
        dtypes = tuple([e.dtype for e in entries])
        recorded = tuple([e.start is not None for e in entries])
        key = (names, shapes, originals, dtypes, recorded)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout(names, shapes, originals, dtypes, recorded)
        return layout

    def _place(self, entries: Sequence[Entry]) -> Places:
        starts = [_NOWHERE if e.start is None else e.start for e in entries]
        lengths = [e.length or 0 for e in entries]
        key = array("q", starts + lengths).tobytes()
        places = self._places.get(key)
        if places is None:
            numbers = memoryview(key).cast("q")
            places = Places(numbers[: len(starts)], numbers[len(starts) :])
            self._places[key] = places
        return places


def _share(blocks: list[Block], positions: Sequence[int], block: Block) -> None:
    for position in positions:
        blocks[position] = block
