"""A step's tensors, each fetched at most once, as every rule sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from tocsin.evaluation._fetch import Fetched, Got, Want, fetch
from tocsin.evaluation._frontier import Ready
from tocsin.evaluation._reductions import FIELDS, reduced
from tocsin.evaluation._references import (
    MOST_REFERENCES,
    UPDATE_FIELDS,
    Reference,
    References,
    depth,
    reference_key,
    remembered,
)
from tocsin.evaluation._selection import Chosen, Selection
from tocsin.model import TensorSummary
from tocsin.rules import Read, Step, Tensor
from tocsin.tensors import Entry, IndexFile, Storage, parse_reduction, summarize


@dataclass(frozen=True)
class Loaded:
    """A step as each rule sees it, by configuration name; what could not be read, and why; and
    the references that the next step needs.
    """

    steps: Mapping[str, Step]
    bytes_read: int
    unreadable: tuple[str, ...]
    references: References


@dataclass(frozen=True)
class _Wanted:
    """A tensor that rules want: where it lies, or its stored reductions, and its earlier saves."""

    file: IndexFile
    entry: Entry
    chosen: Chosen
    reductions: Mapping[str, Entry]  # by summary field
    past: tuple[Reference, ...]

    @property
    def fields(self) -> set[str]:
        return {field for _, _, read in self.chosen for field in read.fields}

    @property
    def depth(self) -> int:
        return max(depth(read) for _, _, read in self.chosen)

    @property
    def whole(self) -> bool:
        """Whether the value itself is wanted, or needed to tell an update that nobody captured."""
        summary = self.entry.summary or TensorSummary()
        lacking = any(getattr(summary, name) is None for name in self.fields & UPDATE_FIELDS)
        return lacking or any(read.values for _, _, read in self.chosen)

    def records(self) -> Iterator[Want]:
        """The records to fetch for it."""
        summary, entry = self.entry.summary, self.entry
        if entry.start is None:
            for part in self.reductions.values():
                yield Want(self.file, part, keep=True)
        elif self.whole or summary is None or _lacks(summary, self.fields):
            yield Want(self.file, entry, self.whole, "fingerprint" in self.fields)
        for reference in self.past:
            if reference.start is not None and (self.whole or reference.summary is None):
                file, earlier = reference.file(entry.name, self.file.worker)
                yield Want(file, earlier, self.whole, "fingerprint" in self.fields)


def load(ready: Ready, selection: Selection, storage: Storage, references: References) -> Loaded:
    """Fetch and reduce what the rules read of a step that has at least one file."""
    wanted = [item for seen in ready.files for item in _wanted(seen.file, selection, references)]
    fetched = fetch(storage, [record for item in wanted for record in item.records()])
    reads: dict[str, dict[str, list[Tensor]]] = {
        rule.name: {name: [] for name in rule.reads.tensors} for rule in selection.watched
    }
    later = dict(references)
    for item in wanted:
        tensor = _tensor(item, fetched, selection)
        for rule, name, read in item.chosen:
            reads[rule.name][name].append(_shown(tensor, read))
        key = reference_key(item.file.mode, item.file.worker, item.entry.name)
        if item.depth and (key in later or len(later) < MOST_REFERENCES):
            later[key] = remembered(references, item.file, item.entry, item.depth)
    first = ready.files[0].file
    step = Step(ready.step, first.mode, first.mode_step, max(seen.modified for seen in ready.files))
    return Loaded(
        {
            rule: replace(step, tensors={name: tuple(found) for name, found in by_read.items()})
            for rule, by_read in reads.items()
        },
        fetched.size,
        tuple(
            f"step {step}, {worker}, {name}: {why}"
            for (worker, name, step), why in fetched.refused.items()
        ),
        later,
    )


def _wanted(file: IndexFile, selection: Selection, references: References) -> Iterator[_Wanted]:
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
            yield _Wanted(file, entry, chosen, reductions.get(entry.name, {}), past)


def _shown(tensor: Tensor, read: Read) -> Tensor:
    """As much of the tensor as the read asks for; mostly that is all there is."""
    if len(tensor.previous) > read.back:
        tensor = replace(tensor, previous=tensor.previous[: read.back])
    if read.values or (tensor.value is None and not tensor.previous):
        return tensor
    past = tuple(replace(earlier, value=None) for earlier in tensor.previous)
    return replace(tensor, value=None, previous=past)


def _lacks(summary: TensorSummary, fields: set[str]) -> bool:
    return any(getattr(summary, name) is None for name in fields - UPDATE_FIELDS)


def _tensor(item: _Wanted, fetched: Fetched, selection: Selection) -> Tensor:
    entry, worker = item.entry, item.file.worker
    got = fetched.got.get((worker, entry.name, item.file.step))
    past = [_earlier(item, reference, fetched) for reference in item.past]
    summary = entry.summary or TensorSummary()
    if got is not None:
        summary = _completed(summary, _with_update(got, past))
    elif item.reductions:
        summary = _completed(summary, _from_reductions(item, fetched))
    return Tensor(
        name=entry.name,
        worker=worker,
        summary=summary,
        shape=got.shape if got else entry.shape,
        dtype=got.dtype if got else entry.dtype,
        role=selection.role(entry),
        kind=entry.kind,
        value=got.value if got else None,
        previous=tuple(past),
    )


def _earlier(item: _Wanted, reference: Reference, fetched: Fetched) -> Tensor:
    name, worker = item.entry.name, item.file.worker
    got = fetched.got.get((worker, name, reference.step))
    summary = reference.summary or (got.summary if got else TensorSummary())
    return Tensor(name, worker, summary, value=got.value if got else None)


def _with_update(got: Got, past: list[Tensor]) -> TensorSummary:
    """The value's summary, with its update against the save before, where both are at hand."""
    before = past[0].value if past else None
    if got.value is None or before is None or before.shape != got.shape:
        return got.summary
    return summarize(got.value, before, fingerprint=got.summary.fingerprint is not None)


def _from_reductions(item: _Wanted, fetched: Fetched) -> TensorSummary:
    known = {}
    for field, part in item.reductions.items():
        got = fetched.got.get((item.file.worker, part.name, item.file.step))
        if got and got.value is not None and got.value.size == 1 and got.value.dtype.kind in "fiub":
            known[field] = float(got.value.reshape(-1)[0])
    return reduced(known)


def _completed(captured: TensorSummary, computed: TensorSummary) -> TensorSummary:
    """What was captured with the tensor, and for what wasn't, what its value gives."""
    known = {k: v for k, v in msgspec.structs.asdict(captured).items() if v is not None}
    return msgspec.structs.replace(computed, **known)
