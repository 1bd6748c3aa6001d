"""The index files of a run as columns; what many of them have in common is kept once."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tocsin.model import TensorSummary
from tocsin.tensors import Entry, IndexFile, parse_reduction

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
    """What the entries of an index file are: columns in the order of the file."""

    def __init__(
        self,
        names: tuple[str, ...],
        shapes: tuple[tuple[int, ...] | None, ...],
        originals: tuple[str | None, ...],
    ) -> None:
        self.names = names
        self.shapes = shapes
        self.originals = originals

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
    """Where the records of an index file lie in its event file."""

    def __init__(self, starts: Sequence[int], lengths: Sequence[int]) -> None:
        self.starts = starts
        self.lengths = lengths

    def has(self, position: int | None) -> bool:
        """Whether there is a record, and not a shape or summary alone."""
        return position is not None and self.starts[position] != _NOWHERE

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
    """One index file: ``index`` is without its entries, which are in the columns."""

    index: IndexFile
    layout: Layout
    places: Places
    crcs: Sequence[int | None] | None
    summaries: Sequence[TensorSummary | None] | None

    def summary(self, position: int | None) -> TensorSummary | None:
        if position is None or self.summaries is None:
            return None
        return self.summaries[position]


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
            replace(index, entries=()),
            self._layout(entries),
            self._place(entries),
            crcs if any(crc is not None for crc in crcs) else None,
            summaries if any(summary is not None for summary in summaries) else None,
        )

    def _layout(self, entries: Sequence[Entry]) -> Layout:
        names = tuple([e.name for e in entries])
        shapes = tuple([e.shape for e in entries])
        originals = tuple([e.original_name for e in entries])
        key = (names, shapes, originals)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout(names, shapes, originals)
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
