"""A step's tensors, each fetched at most once, as every rule sees them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from tocsin.evaluation._fetch import Fetched, Got, Key, fetch
from tocsin.evaluation._frontier import Ready
from tocsin.evaluation._others import beside, files_of
from tocsin.evaluation._reductions import reduced
from tocsin.evaluation._references import (
    DETAIL_FIELDS,
    MOST_REFERENCES,
    Reference,
    References,
    reference_key,
    remembered,
)
from tocsin.evaluation._selection import Selection
from tocsin.evaluation._wanted import Wanted, wanted
from tocsin.model import Detail, TensorSummary
from tocsin.rules import Read, Step, Tensor
from tocsin.tensors import IndexFile, Storage, answers, update_norms

ByRead = Mapping[str, tuple[Tensor, ...]]


@dataclass(frozen=True)
class Loaded:
    """A step as each rule sees it, by configuration name; what could not be read, and why; and
    what the next step needs: references to these tensors, and the values at hand of those that
    rules look back at.
    """

    steps: Mapping[str, Step]
    bytes_read: int
    unreadable: tuple[str, ...]
    references: References
    values: Mapping[Key, Got]


def load(
    ready: Ready,
    selection: Selection,
    storage: Storage,
    references: References,
    open_run: Callable[[str], Storage],
    values: Mapping[Key, Got],
) -> Loaded:
    """Fetch and reduce what the rules read of a step that has at least one file.

    ``open_run`` gives the files of the other runs that rules compare with, by their URLs;
    ``values`` are those of the step before, if it was loaded just now.
    """
    files = [seen.file for seen in ready.files]
    own = _read(files, selection, storage, references, values)
    step = Step(
        ready.step,
        files[0].mode,
        files[0].mode_step,
        max(seen.modified for seen in ready.files),
        times={seen.file.worker: seen.modified for seen in ready.files},
    )
    others = {
        run: _read_other(run, files, selection, storage.url, open_run) for run in selection.runs
    }
    return Loaded(
        {
            rule.name: replace(
                step,
                tensors=own.tensors[rule.name],
                others={
                    run: found.tensors[rule.name]
                    for run in rule.reads.runs
                    if rule.name in (found := others[run]).tensors
                },
            )
            for rule in selection.watched
        },
        sum(found.size for found in (own, *others.values())),
        tuple(why for found in (own, *others.values()) for why in found.unreadable),
        own.references,
        own.values,
    )


@dataclass(frozen=True)
class _Found:
    """What was read of one run's step: by rule and read, with the references to it."""

    tensors: Mapping[str, ByRead]
    size: int
    unreadable: tuple[str, ...]
    references: References = field(default_factory=dict)
    values: Mapping[Key, Got] = field(default_factory=dict)


def _read(
    files: Sequence[IndexFile],
    selection: Selection,
    storage: Storage,
    references: References,
    values: Mapping[Key, Got],
) -> _Found:
    items = [item for file in files for item in wanted(file, selection, references)]
    fetched = fetch(storage, [record for item in items for record in item.records()], values)
    reads: dict[str, dict[str, list[Tensor]]] = {
        rule.name: {name: [] for name in rule.reads.tensors} for rule in selection.watched
    }
    later = dict(references)
    deep = {(item.file.worker, item.entry.name) for item in items if item.chosen.depth}
    for item in items:
        tensor, details = _tensor(item, fetched)
        shown: dict[tuple[int, bool, Detail | None], Tensor] = {}
        for rule, name, read in item.chosen.reads:
            asked = (read.back, read.values, read.detail)
            if asked not in shown:
                shown[asked] = _shown(tensor, read, details)
            reads[rule.name][name].append(shown[asked])
        if depth := item.chosen.depth:
            key = reference_key(item.file.mode, item.file.worker, item.entry.name)
            if key in later or len(later) < MOST_REFERENCES:
                later[key] = remembered(references, item.file, item.entry, tensor.summary, depth)
    return _Found(
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
        {key: got for key, got in fetched.got.items() if got.value is not None and key[:2] in deep},
    )


def _read_other(
    run: str,
    files: Sequence[IndexFile],
    selection: Selection,
    own: str,
    open_run: Callable[[str], Storage],
) -> _Found:
    """The same step and workers of another run, for the rules that asked for it; ``own`` is the
    URL of the run that is compared.
    """
    rules = tuple(rule for rule in selection.watched if run in rule.reads.runs)
    try:
        storage = open_run(beside(own, run))
        there = files_of(storage, files)
    except (PermissionError, ValueError) as error:
        return _Found({}, 0, (f"the other run {run}: {error}",))
    if not there:
        return _Found({}, 0, ())
    return _read(there, Selection(rules, selection.collections), storage, {}, {})


def _shown(tensor: Tensor, read: Read, details: Mapping[Detail, TensorSummary]) -> Tensor:
    """As much of the tensor as the read asks for; mostly that is all there is."""
    summary, value, previous = tensor.summary, tensor.value, tensor.previous[: read.back]
    if read.detail is not None and not answers(summary, read.detail):
        known = details.get(read.detail, TensorSummary())
        found = {field: getattr(known, field) for field in DETAIL_FIELDS}
        summary = msgspec.structs.replace(summary, **found)
    if not read.values:
        value = None
        if any(earlier.value is not None for earlier in previous):
            previous = tuple(replace(earlier, value=None) for earlier in previous)
    unchanged = summary is tensor.summary and value is tensor.value
    if (
        unchanged
        and all(map(operator.is_, previous, tensor.previous))
        and (len(previous) == len(tensor.previous))
    ):
        return tensor
    return replace(tensor, summary=summary, value=value, previous=previous)


def _tensor(item: Wanted, fetched: Fetched) -> tuple[Tensor, Mapping[Detail, TensorSummary]]:
    """The tensor with all that is known of it, and the details that were computed."""
    entry, worker = item.entry, item.file.worker
    got = fetched.got.get((worker, entry.name, item.file.step))
    past = [_earlier(item, reference, fetched) for reference in item.past]
    summary = entry.summary or TensorSummary()
    if got is not None:
        summary = _completed(summary, _with_update(got, past))
    elif item.reductions:
        summary = _completed(summary, _from_reductions(item, fetched))
    tensor = Tensor(
        name=entry.name,
        worker=worker,
        summary=summary,
        shape=got.shape if got else entry.shape,
        dtype=got.dtype if got else entry.dtype,
        role=item.chosen.role,
        kind=item.chosen.kind,
        value=got.value if got else None,
        previous=tuple(past),
    )
    return tensor, got.details if got else {}


def _earlier(item: Wanted, reference: Reference, fetched: Fetched) -> Tensor:
    name, worker = item.entry.name, item.file.worker
    got = fetched.got.get((worker, name, reference.step))
    summary = reference.summary or (got.summary if got else TensorSummary())
    return Tensor(name, worker, summary, value=got.value if got else None)


def _with_update(got: Got, past: list[Tensor]) -> TensorSummary:
    """The value's summary, with its update against the save before, where both are at hand."""
    before = past[0].value if past else None
    if got.value is None or before is None:
        return got.summary
    l1, l2 = update_norms(got.value, before)
    return msgspec.structs.replace(got.summary, update_l1=l1, update_l2=l2)


def _from_reductions(item: Wanted, fetched: Fetched) -> TensorSummary:
    known = {}
    for what, part in item.reductions.items():
        got = fetched.got.get((item.file.worker, part.name, item.file.step))
        if got and got.value is not None and got.value.size == 1 and got.value.dtype.kind in "fiub":
            known[what] = float(got.value.reshape(-1)[0])
    return reduced(known)


def _completed(captured: TensorSummary, computed: TensorSummary) -> TensorSummary:
    """What was captured with the tensor, and for what wasn't, what its value gives."""
    known = {k: v for k, v in msgspec.structs.asdict(captured).items() if v is not None}
    return msgspec.structs.replace(computed, **known)
