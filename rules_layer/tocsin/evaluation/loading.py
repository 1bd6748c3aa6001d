"""Load: a step's tensors, each fetched at most once, as every rule sees them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tocsin.evaluation.needed import needed_tensors, reference_key
from tocsin.evaluation.planning import ReadyStep
from tocsin.evaluation.records import References
from tocsin.evaluation.shards import joined
from tocsin.evaluation.trials import beside, same_files
from tocsin.model import Detail, TensorSummary, altered
from tocsin.rules import Read, Step, Tensor
from tocsin.tensors import (
    FetchedValue,
    IndexFile,
    Storage,
    ValueKey,
    answers,
    fetch,
    with_details,
)
from tocsin.watch import Arrangement, Selection

if TYPE_CHECKING:
    from tocsin.trial import PastTrial

MOST_REFERENCES = 20_000  # of a run: the checkpoint is read and written at every step
ByRead = Mapping[str, tuple[Tensor, ...]]


@dataclass(frozen=True)
class LoadedStep:
    """A step with its tensors.

    steps: the step as each rule sees it, by the rule's name in the configuration.
    tensors: the tensors that rules read.
    unreadable: the tensors and runs that could not be read, with the reason.
    references: the earlier saves that the next step needs.
    values: the values in memory that the next step needs.
    """

    steps: Mapping[str, Step]
    tensors: Sequence[Tensor]
    bytes_read: int
    unreadable: tuple[str, ...]
    references: References
    values: Mapping[ValueKey, FetchedValue]

    def with_trial(self, trial: PastTrial, selection: Selection) -> LoadedStep:
        """Return the same, with the run up to the step for the rules that read it as a whole."""
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
    files = [found.file for found in ready.alike]
    own = _read(files, selection, storage, references, values)
    others = {
        run: _read_other(run, files, selection, storage.url, open_run) for run in selection.runs
    }
    bare = ready.without_tensors
    steps: dict[str, Step] = {}
    for rules, tensors in own.views:
        step = altered(bare, tensors=tensors)
        steps.update(dict.fromkeys(rules, step))
    for rule in selection.watched:
        if rule.reads.runs:
            there = {run: others[run].of(rule.name) for run in rule.reads.runs}
            known = {run: tensors for run, tensors in there.items() if tensors is not None}
            steps[rule.name] = replace(steps[rule.name], others=known)
    everything = (own, *others.values())
    return LoadedStep(
        steps,
        tensors=own.tensors,
        bytes_read=sum(found.size for found in everything),
        unreadable=tuple(why for found in everything for why in found.unreadable),
        references=own.references,
        values=own.values,
    )


def read_step(
    files: Sequence[IndexFile], selection: Selection, storage: Storage
) -> Mapping[str, ByRead]:
    """Fetch and reduce what the rules read of a step of any run, by rule and read."""
    views = _read(files, selection, storage, {}, {}).views
    return {rule: tensors for rules, tensors in views for rule in rules}


@dataclass(frozen=True)
class _Loaded:
    """The tensors of one run's step, also by the rules that see the same, and references."""

    tensors: Sequence[Tensor]
    views: Sequence[tuple[tuple[str, ...], ByRead]]
    size: int
    unreadable: tuple[str, ...]
    references: References = field(default_factory=dict)
    values: Mapping[ValueKey, FetchedValue] = field(default_factory=dict)

    def of(self, rule: str) -> ByRead | None:
        """Return the tensors of a rule; None where nothing was read."""
        return next((tensors for rules, tensors in self.views if rule in rules), None)


def _read(
    files: Sequence[IndexFile],
    selection: Selection,
    storage: Storage,
    references: References,
    values: Mapping[ValueKey, FetchedValue],
) -> _Loaded:
    needed = [each for file in files for each in needed_tensors(file, selection, references)]
    fetched = fetch(storage, [record for each in needed for record in each.records()], values)
    found = [each.tensor(fetched) for each in needed]
    later = dict(references)
    for each, (tensor, _) in zip(needed, found, strict=True):
        if depth := each.chosen.depth:
            key = reference_key(each.file, each.entry)
            if key in later or len(later) < MOST_REFERENCES:
                later[key] = (each.reference(tensor.summary), *references.get(key, ()))[:depth]
    refused = [
        ((file.worker, name, file.step), why)
        for file in files
        for name, why in file.refused.items()
    ]
    deep = {(each.file.worker, each.entry.name) for each in needed if each.chosen.depth}
    return _Loaded(
        [tensor for tensor, _ in found],
        _views(found, selection.arranged([each.chosen for each in needed])),
        fetched.size,
        tuple(
            f"step {step}, {worker}, {name}: {why}"
            for (worker, name, step), why in (*refused, *fetched.refused.items())
        ),
        later,
        {
            key: value
            for key, value in fetched.values.items()
            if value.value is not None and key[:2] in deep
        },
    )


def _views(
    found: Sequence[tuple[Tensor, Mapping[Detail, TensorSummary]]], arrangement: Arrangement
) -> list[tuple[tuple[str, ...], ByRead]]:
    """The tensors by rules and their reads, each with as much as the read asks for."""
    shown = [_shown(found[at][0], read, found[at][1]) for at, read in arrangement.shown]
    is_sharded = any(tensor.shard for tensor, _ in found)
    groups = []
    for group in arrangement.groups:
        tensors = tuple([shown[at] for at in group.places])
        groups.append(joined(tensors) if is_sharded and not group.values else tensors)
    views = [
        (rules, MappingProxyType({name: groups[number] for name, number in view.items()}))
        for rules, view in arrangement.views  # several rules share it
    ]
    return [*views, *arrangement.empty]


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
        return _Loaded((), (), 0, (f"the other run {run}: {error}",))
    if not there:
        return _Loaded((), (), 0, ())
    return _read(there, Selection(rules, selection.collections), storage, {}, {})


def _shown(tensor: Tensor, read: Read, details: Mapping[Detail, TensorSummary]) -> Tensor:
    """As much of the tensor as the read asks for; mostly that is all there is."""
    if read.detail is None and tensor.value is None and not tensor.previous:
        return tensor
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
