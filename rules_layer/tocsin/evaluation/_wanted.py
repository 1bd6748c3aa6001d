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
    reference_key,
)
from tocsin.evaluation._selection import Chosen, Selection
from tocsin.model import TensorSummary
from tocsin.tensors import Entry, IndexFile, answers, parse_reduction


@dataclass(frozen=True)
class Wanted:
    file: IndexFile
    entry: Entry
    chosen: Chosen
    reductions: Mapping[str, Entry]  # by summary field
    past: tuple[Reference, ...]

    def records(self) -> Iterator[Want]:
        """The records to fetch for it."""
        entry, chosen = self.entry, self.chosen
        if entry.start is None and not self.reductions and not self.past:
            return  # known by its summary, as most are
        summary = entry.summary or TensorSummary()
        whole = chosen.values or _lacks(summary, chosen.fields & UPDATE_FIELDS)
        details = tuple(detail for detail in chosen.details if not answers(summary, detail))
        if entry.start is None:
            for part in self.reductions.values():
                yield Want(self.file, part, keep=True)
        elif whole or details or _lacks(summary, chosen.fields - UPDATE_FIELDS):
            yield Want(self.file, entry, whole, chosen.fields, details)
        for at, reference in enumerate(self.past):
            value = chosen.values or (whole and at == 0)  # an update is against the last save
            if reference.start is not None and (value or reference.summary is None):
                file, earlier = reference.file(entry.name, self.file.worker)
                yield Want(file, earlier, value, chosen.fields)


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
        if chosen := selection.chosen(entry):
            past = references.get(reference_key(file.mode, file.worker, entry.name), ())
            yield Wanted(file, entry, chosen, reductions.get(entry.name, {}), past)


def _lacks(summary: TensorSummary, fields: frozenset[str]) -> bool:
    return any(getattr(summary, name) is None for name in fields)
