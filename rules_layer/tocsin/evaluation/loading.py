"""Load: a step's tensors, each fetched at most once, as every rule sees them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from numpy.typing import NDArray

from tocsin.evaluation.checkpoint import Reference, References
from tocsin.evaluation.looking import ReadyStep
from tocsin.evaluation.trials import beside, same_files
from tocsin.model import Detail, TensorSummary
from tocsin.rules import Read, Step, Tensor
from tocsin.tensors import (
    SUMMARY_REDUCTIONS,
    Entry,
    Fetched,
    FetchedValue,
    IndexFile,
    RecordToRead,
    Storage,
    ValueKey,
    answers,
    completed,
    fetch,
    inline_value,
    parse_reduction,
    summary_of,
    update_norms,
    with_details,
    without_details,
)
from tocsin.trial import PastTrial
from tocsin.watch import UPDATE_FIELDS, Chosen, Selection

MOST_REFERENCES = 20_000  # of a run: the checkpoint is read and written at every step

ByRead = Mapping[str, tuple[Tensor, ...]]


@dataclass(frozen=True)
class LoadedStep:
    """A step with its tensors.

    steps: the step as each rule sees it, by the rule's name in the configuration.
    unreadable: the tensors and runs that could not be read, with the reason.
    references: the earlier saves that the next step needs.
    values: the values in memory that the next step needs.
    """

    steps: Mapping[str, Step]
    bytes_read: int
    unreadable: tuple[str, ...]
    references: References
    values: Mapping[ValueKey, FetchedValue]

    def with_trial(self, trial: PastTrial, selection: Selection) -> LoadedStep:
        """The same, with the run up to the step for the rules that read it as a whole."""
        asking = {rule.name for rule in selection.watched if rule.reads.trial}
        steps = {name: replace(s, trial=trial) for name, s in self.steps.items() if name in asking}
        return replace(self, steps={**self.steps, **steps})


def load(
    ready: ReadyStep,
    selection: Selection,
    storage: Storage,
    references: References,
    open_run: Callable[[str], Storage],
    values: Mapping[ValueKey, FetchedValue],
) -> LoadedStep:
    """Fetch and reduce what the rules read of a step that has at least one file.

    ``open_run`` opens the other runs that rules compare with, by their URLs. ``values`` are those
    of the step before, if it was loaded just now.
    """
    files = [found.file for found in ready.files]
    own = _read(files, selection, storage, references, values)
    others = {
        run: _read_other(run, files, selection, storage.url, open_run) for run in selection.runs
    }
    step = ready.without_tensors
    steps = {
        rule.name: replace(
            step,
            tensors=own.tensors[rule.name],
            others={
                run: others[run].tensors[rule.name]
                for run in rule.reads.runs
                if rule.name in others[run].tensors
            },
        )
        for rule in selection.watched
    }
    everything = (own, *others.values())
    return LoadedStep(
        steps,
        bytes_read=sum(found.size for found in everything),
        unreadable=tuple(why for found in everything for why in found.unreadable),
        references=own.references,
        values=own.values,
    )


@dataclass(frozen=True)
class _Loaded:
    """The tensors of one run's step, by rule and read, and the references to them."""

    tensors: Mapping[str, ByRead]
    size: int
    unreadable: tuple[str, ...]
    references: References = field(default_factory=dict)
    values: Mapping[ValueKey, FetchedValue] = field(default_factory=dict)


def _read(
    files: Sequence[IndexFile],
    selection: Selection,
    storage: Storage,
    references: References,
    values: Mapping[ValueKey, FetchedValue],
) -> _Loaded:
    needed = [each for file in files for each in _needed(file, selection, references)]
    fetched = fetch(storage, [record for each in needed for record in each.records()], values)
    reads: dict[str, dict[str, list[Tensor]]] = {
        rule.name: {name: [] for name in rule.reads.tensors} for rule in selection.watched
    }
    later = dict(references)
    for each in needed:
        tensor, details = each.tensor(fetched)
        shown: dict[tuple[int, bool, Detail | None], Tensor] = {}
        for rule, name, read in each.chosen.reads:
            asked = (read.back, read.values, read.detail)
            if asked not in shown:
                shown[asked] = _shown(tensor, read, details)
            reads[rule.name][name].append(shown[asked])
        key = _reference_key(each.file, each.entry)
        if (depth := each.chosen.depth) and (key in later or len(later) < MOST_REFERENCES):
            later[key] = (each.reference(tensor.summary), *references.get(key, ()))[:depth]
    deep = {(each.file.worker, each.entry.name) for each in needed if each.chosen.depth}
    return _Loaded(
        {
            rule: {name: tuple(found) for name, found in by_read.items()}
            for rule, by_read in reads.items()
        },
        fetched.size,
        tuple(
            f"step {step}, {worker}, {name}: {why}"
            for (worker, name, step), why in fetched.refused.items()
        ),
        later,
        {
            key: value
            for key, value in fetched.values.items()
            if value.value is not None and key[:2] in deep
        },
    )


def _read_other(
    run: str,
    files: Sequence[IndexFile],
    selection: Selection,
    own: str,
    open_run: Callable[[str], Storage],
) -> _Loaded:
    """The same step and workers of another run, for the rules that ask for it.

    ``own`` is the URL of the run that is compared.
    """
    rules = tuple(rule for rule in selection.watched if run in rule.reads.runs)
    try:
        storage = open_run(beside(own, run))
        there = list(same_files(storage, files))
    except (PermissionError, ValueError) as error:
        return _Loaded({}, 0, (f"the other run {run}: {error}",))
    if not there:
        return _Loaded({}, 0, ())
    return _read(there, Selection(rules, selection.collections), storage, {}, {})


@dataclass(frozen=True)
class _NeededTensor:
    """A tensor that rules read, its stored reductions by summary field, and its earlier saves."""

    file: IndexFile
    entry: Entry
    chosen: Chosen
    reductions: Mapping[str, Entry]
    past: tuple[Reference, ...]

    def records(self) -> Iterator[RecordToRead]:
        """The records to fetch for it."""
        entry, chosen = self.entry, self.chosen
        if entry.start is None and not self.reductions and not self.past:
            return  # known by its summary, as most are
        summary = entry.summary or TensorSummary()
        whole = chosen.values or _lacks(summary, chosen.fields & UPDATE_FIELDS)
        details = tuple(detail for detail in chosen.details if not answers(summary, detail))
        if entry.start is None:
            for part in self.reductions.values():
                yield RecordToRead(self.file, part, keep=True)
        elif whole or details or _lacks(summary, chosen.fields - UPDATE_FIELDS):
            yield RecordToRead(self.file, entry, whole, chosen.fields, details)
        for at, reference in enumerate(self.past):
            value = chosen.values or (whole and at == 0)  # an update is against the last save
            if reference.start is not None and (value or reference.summary is None):
                file, earlier = reference.file(entry.name, self.file.worker)
                yield RecordToRead(file, earlier, value, chosen.fields)

    def tensor(self, fetched: Fetched) -> tuple[Tensor, Mapping[Detail, TensorSummary]]:
        """The tensor with all that is known of it, and the details that were computed."""
        entry, worker = self.entry, self.file.worker
        value = fetched.values.get((worker, entry.name, self.file.step))
        past = tuple(self._earlier(reference, fetched) for reference in self.past)
        summary = entry.summary or TensorSummary()
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
        )
        return tensor, value.details if value else {}

    def _inline(self) -> NDArray[Any] | None:
        return inline_value(self.entry) if self.chosen.values else None

    def reference(self, summary: TensorSummary) -> Reference:
        """A reference to this save."""
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


def _needed(
    file: IndexFile, selection: Selection, references: References
) -> Iterator[_NeededTensor]:
    """The tensors of a worker's step that any rule reads; stored reductions count to theirs."""
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
            past = references.get(_reference_key(file, entry), ())
            yield _NeededTensor(file, entry, chosen, reductions.get(entry.name, {}), past)


def _reference_key(file: IndexFile, entry: Entry) -> str:
    return f"{file.mode.name}/{file.worker}/{entry.name}"


def _shown(tensor: Tensor, read: Read, details: Mapping[Detail, TensorSummary]) -> Tensor:
    """As much of the tensor as the read asks for; mostly that is all there is."""
    summary, value, previous = tensor.summary, tensor.value, tensor.previous[: read.back]
    if read.detail is not None and not answers(summary, read.detail):
        summary = with_details(summary, details.get(read.detail, TensorSummary()))
    if not read.values:
        value = None
        if any(earlier.value is not None for earlier in previous):
            previous = tuple(replace(earlier, value=None) for earlier in previous)
    if (
        summary is tensor.summary
        and value is tensor.value
        and len(previous) == len(tensor.previous)
        and all(map(operator.is_, previous, tensor.previous))
    ):
        return tensor
    return replace(tensor, summary=summary, value=value, previous=previous)


def _lacks(summary: TensorSummary, fields: frozenset[str]) -> bool:
    return any(getattr(summary, name) is None for name in fields)


def _with_update(found: FetchedValue, past: Sequence[Tensor]) -> TensorSummary:
    """The value's summary, with its update against the save before, where both are at hand."""
    before = past[0].value if past else None
    if found.value is None or before is None:
        return found.summary
    l1, l2 = update_norms(found.value, before)
    return msgspec.structs.replace(found.summary, update_l1=l1, update_l2=l2)
