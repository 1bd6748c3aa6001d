"""A tensor that rules want: where it lies, or its stored reductions, and its earlier saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tocsin.evaluation._fetch import Want
from tocsin.evaluation._reductions import FIELDS
from tocsin.evaluation._references import (
    UPDATE_FIELDS,
    Reference,
    References,
    depth,
    reference_key,
)
from tocsin.evaluation._selection import Chosen, Selection
from tocsin.model import Detail, TensorSummary
from tocsin.tensors import Entry, IndexFile, answers, parse_reduction


@dataclass(frozen=True)
class Wanted:
    file: IndexFile
    entry: Entry
    chosen: Chosen
    reductions: Mapping[str, Entry]  # by summary field
    past: tuple[Reference, ...]

    @property
    def depth(self) -> int:
        """How many earlier saves are needed."""
        return max(depth(read) for _, _, read in self.chosen)

    def records(self) -> Iterator[Want]:
        """The records to fetch for it."""
        entry, whole, details = self.entry, self._whole, self._details
        fields = frozenset(field for _, _, read in self.chosen for field in read.fields)
        if entry.start is None:
            for part in self.reductions.values():
                yield Want(self.file, part, keep=True)
        elif whole or details or entry.summary is None or _lacks(entry.summary, fields):
            yield Want(self.file, entry, whole, fields, details)
        for reference in self.past:
            if reference.start is not None and (whole or reference.summary is None):
                file, earlier = reference.file(entry.name, self.file.worker)
                yield Want(file, earlier, whole, fields)

    @property
    def _whole(self) -> bool:
        """Whether the value itself is wanted, or needed to tell an update that nobody captured."""
        summary = self.entry.summary or TensorSummary()
        fields = {field for _, _, read in self.chosen for field in read.fields} & UPDATE_FIELDS
        lacking = any(getattr(summary, name) is None for name in fields)
        return lacking or any(read.values for _, _, read in self.chosen)

    @property
    def _details(self) -> tuple[Detail, ...]:
        """What was not captured of the details that rules ask for."""
        summary = self.entry.summary or TensorSummary()
        asked = {read.detail for _, _, read in self.chosen if read.detail is not None}
        return tuple(detail for detail in asked if not answers(summary, detail))


def wanted(file: IndexFile, selection: Selection, references: References) -> Iterator[Wanted]:
    """Of a worker's step, what any rule reads; stored reductions count to their tensor."""
    entries: dict[str, Entry] = {}
    reductions: dict[str, dict[str, Entry]] = {}
    for entry in file.entries:
        if (reduction := parse_reduction(entry.name)) is None:
            entries[entry.name] = entry
        elif reduction[0] in FIELDS and entry.start is not None:
            reductions.setdefault(reduction[1], {})[reduction[0]] = entry
    for name in reductions:
        entries.setdefault(name, Entry(name=name))
    for entry in entries.values():
        if chosen := selection.reads(entry):
            past = references.get(reference_key(file.mode, file.worker, entry.name), ())
            yield Wanted(file, entry, chosen, reductions.get(entry.name, {}), past)


def _lacks(summary: TensorSummary, fields: frozenset[str]) -> bool:
    return any(getattr(summary, name) is None for name in fields - UPDATE_FIELDS)
