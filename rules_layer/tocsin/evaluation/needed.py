"""Load: the tensors of a step that rules read, and the records to fetch for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from numpy.typing import NDArray

from tocsin.evaluation.records import Reference, References
from tocsin.model import Detail, TensorSummary
from tocsin.rules import Tensor
from tocsin.tensors import (
    SUMMARY_REDUCTIONS,
    Entry,
    Fetched,
    FetchedValue,
    IndexFile,
    RecordToRead,
    answers,
    completed,
    inline_value,
    parse_reduction,
    summary_of,
    update_norms,
    without_details,
)
from tocsin.watch import Chosen, Selection

_UNKNOWN = TensorSummary()


@dataclass(frozen=True)
class NeededTensor:
    """A tensor that rules read, its stored reductions by summary field, and its earlier saves."""

    file: IndexFile
    entry: Entry
    chosen: Chosen
    reductions: Mapping[str, Entry]
    past: tuple[Reference, ...]

    def records(self) -> Iterator[RecordToRead]:
        """Yield the records to fetch for it."""
        entry, chosen = self.entry, self.chosen
        if entry.start is None and not self.reductions and not self.past:
            return  # known by its summary, as most are
        summary = entry.summary or _UNKNOWN
        if not (self.past or chosen.values or chosen.details or _lacks(summary, chosen.fields)):
            return
        whole = chosen.values or _lacks(summary, chosen.updates)
        details = tuple(detail for detail in chosen.details if not answers(summary, detail))
        if entry.start is None:
            for part in self.reductions.values():
                yield RecordToRead(self.file, part, keep=True)
        elif whole or details or _lacks(summary, chosen.own):
            yield RecordToRead(self.file, entry, whole, chosen.fields, details)
        for at, reference in enumerate(self.past):
            value = chosen.values or (whole and at == 0)  # an update is against the last save
            if reference.start is not None and (value or reference.summary is None):
                file, earlier = reference.file(entry.name, self.file.worker)
                yield RecordToRead(file, earlier, value, chosen.fields)

    def tensor(self, fetched: Fetched) -> tuple[Tensor, Mapping[Detail, TensorSummary]]:
        """Return the tensor with all that is known of it, and the details that were computed."""
        entry, worker = self.entry, self.file.worker
        value = fetched.values.get((worker, entry.name, self.file.step))
        past = tuple(self._earlier(reference, fetched) for reference in self.past)
        summary = entry.summary or _UNKNOWN
        if value is not None:
            summary = completed(summary, _with_update(value, past))
        elif self.reductions:
            summary = completed(summary, self._from_reductions(fetched))
        tensor = Tensor(
            name=entry.name,
            worker=worker,
            summary=summary,
            shape=value.shape if value else entry.shape,
            dtype=value.dtype if value else entry.dtype,
            role=self.chosen.role,
            kind=self.chosen.kind,
            value=value.value if value else self._inline(),
            previous=past,
            shard=entry.shard,
            contract=entry.contract,
        )
        return tensor, value.details if value else {}

    def _inline(self) -> NDArray[Any] | None:
        return inline_value(self.entry) if self.chosen.values else None

    def reference(self, summary: TensorSummary) -> Reference:
        """Return a reference to this save."""
        entry, file = self.entry, self.file
        event_key = file.event_key if entry.start is not None else None
        plain = without_details(summary)
        return Reference(file.step, event_key, entry.start, entry.length, plain)

    def _earlier(self, reference: Reference, fetched: Fetched) -> Tensor:
        name, worker = self.entry.name, self.file.worker
        value = fetched.values.get((worker, name, reference.step))
        summary = reference.summary or (value.summary if value else TensorSummary())
        return Tensor(name, worker, summary, value=value.value if value else None)

    def _from_reductions(self, fetched: Fetched) -> TensorSummary:
        known = {}
        for field_, part in self.reductions.items():
            found = fetched.values.get((self.file.worker, part.name, self.file.step))
            value = None if found is None else found.value
            if value is not None and value.size == 1 and value.dtype.kind in "fiub":
                known[field_] = float(value.reshape(-1)[0])
        return summary_of(known)


def needed_tensors(
    file: IndexFile, selection: Selection, references: References
) -> Iterator[NeededTensor]:
    """Yield the tensors of a worker's step that any rule reads; stored reductions count to
    theirs."""
    entries: dict[str, Entry] = {}
    reductions: dict[str, dict[str, Entry]] = {}
    for entry in file.entries:
        if (reduction := parse_reduction(entry.name)) is None:
            entries[entry.name] = entry
        elif reduction[0] in SUMMARY_REDUCTIONS and entry.start is not None:
            reductions.setdefault(reduction[1], {})[reduction[0]] = entry
    for name in reductions:
        entries.setdefault(name, Entry(name=name))
    for entry in entries.values():
        if chosen := selection.chosen(entry):
            past = references.get(reference_key(file, entry), ())
            yield NeededTensor(file, entry, chosen, reductions.get(entry.name, {}), past)


def reference_key(file: IndexFile, entry: Entry) -> str:
    return f"{file.mode.name}/{file.worker}/{entry.name}"


def _lacks(summary: TensorSummary, fields: frozenset[str]) -> bool:
    return any(getattr(summary, name) is None for name in fields)


def _with_update(found: FetchedValue, past: Sequence[Tensor]) -> TensorSummary:
    """The value's summary, with its update against the save before, where both are at hand."""
    before = past[0].value if past else None
    if found.value is None or before is None:
        return found.summary
    l1, l2 = update_norms(found.value, before)
    return msgspec.structs.replace(found.summary, update_l1=l1, update_l2=l2)
