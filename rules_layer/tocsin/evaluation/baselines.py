"""Baselines, read once for the rules that compare a run with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from pathlib import PurePath

import msgspec

from tocsin.evaluation.loading import LoadedStep, read_step
from tocsin.evaluation.trials import beside
from tocsin.rules import Baseline, Observation, Step
from tocsin.rules._baseline import observed, with_seconds
from tocsin.tensors import (
    BadCollections,
    BadIndex,
    Entry,
    IndexFile,
    NotFound,
    Object,
    RefusedFile,
    Storage,
    in_parallel,
    index_objects,
    parse_index_key,
    read_collections,
    read_index,
    starts_of,
)
from tocsin.watch import Selection, Watched

_FIRST_STEPS = 100  # all of them are read: a smoke run has no others
_SPREAD_STEPS = 400  # of the rest
_MOST_LISTED = 50_000  # index files
_MOST_BYTES = 32 << 20  # of index files
_MOST_WORKERS = 8
_MOST_VALUE = 64 << 10  # bytes of a tensor without a summary
_MOST_KEPT = 32  # in memory


@dataclass
class Baselines:
    """The baselines that this process has read, by URL and by the rule that compares."""

    _of: OrderedDict[tuple[str, str], Baseline] = field(default_factory=OrderedDict)

    def beside(
        self,
        loaded: LoadedStep,
        selection: Selection,
        run: str,
        open_run: Callable[[str], Storage],
    ) -> LoadedStep:
        """Return a step of a run (URL) with their baselines for the rules that have some."""
        asking = [rule for rule in selection.watched if rule.reads.baselines]
        if not asking:
            return loaded
        steps = dict(loaded.steps)
        for rule in asking:
            known = (self._known(rule, run, name, open_run) for name in rule.reads.baselines)
            steps[rule.name] = replace(steps[rule.name], baselines=tuple(known))
        return replace(loaded, steps=steps)

    def _known(
        self, rule: Watched, run: str, name: str, open_run: Callable[[str], Storage]
    ) -> Baseline:
        try:
            key = beside(run, name), rule.fingerprint
            if key not in self._of:
                self._of[key] = read_baseline(name, open_run(key[0]), rule)
        except (NotFound, PermissionError, ValueError) as error:
            return Baseline(name, (), str(error))
        self._of.move_to_end(key)
        if len(self._of) > _MOST_KEPT:
            self._of.popitem(last=False)
        return self._of[key]


def is_of_owner(run: str, name: str, owner: Callable[[str], str]) -> bool:
    """Return whether the run of that name has the same owner as a run (URL): they are in one bucket
    and below one folder, or in a local folder beside each other.
    """
    try:
        url = beside(run, name)
    except ValueError:
        return True  # it is refused when it is opened
    bucket, other = (each.partition("://")[2].partition("/")[0] for each in (run, url))
    if not run.startswith("s3://"):
        parent = PurePath(run).parent
        return PurePath(url).parent == parent and PurePath(url).name not in ("..", "")
    return url.startswith("s3://") and bucket == other and owner(run) == owner(url) != ""


def read_baseline(name: str, storage: Storage, rule: Watched) -> Baseline:
    """Read a run as a rule compares it: its first steps, and others evenly over the rest.

    Raises NotFound for a missing bucket, and PermissionError.
    """
    try:
        collections = read_collections(storage)
    except BadCollections:
        collections = None
    selection = Selection((rule,), collections)
    objects = [*chain.from_iterable(_within(_chosen(list(_listed(storage)))))]
    read = in_parallel(lambda item: _file(storage, item), objects)
    found = [
        (file, item.modified) for file, item in zip(read, objects, strict=True) if file is not None
    ]
    starts = starts_of([file for file, _ in found])
    kept = (each for each in found if starts.keeps(each[0]))
    steps = [
        _observation(list(files), rule, selection, storage)
        for _, files in groupby(kept, lambda each: each[0].step)
    ]
    if not steps:
        return Baseline(name, (), "it has no step that can be read")
    return Baseline(name, tuple(with_seconds(steps)))


def _listed(storage: Storage) -> Iterator[list[Object]]:
    """Yield the index files of each step."""
    objects = islice(index_objects(storage), _MOST_LISTED)
    for _, files in groupby(objects, lambda item: (parse_index_key(item.key) or (-1,))[0]):
        yield list(files)[:_MOST_WORKERS]


def _chosen(steps: Sequence[list[Object]]) -> list[list[Object]]:
    """Return the first steps and, at equal distances up to the last one, some of the others."""
    first, rest = steps[:_FIRST_STEPS], steps[_FIRST_STEPS:]
    apart = max(1, -(-len(rest) // _SPREAD_STEPS))
    return [*first, *rest[::-1][::apart][::-1]]


def _within(steps: Iterable[list[Object]]) -> Iterator[list[Object]]:
    """Yield the steps whose index files together are not too large."""
    size = 0
    for files in steps:
        size += sum(item.size for item in files)
        if size > _MOST_BYTES:
            return
        yield files


def _file(storage: Storage, item: Object) -> IndexFile | None:
    """Return an index file without references to large values; None if it cannot be used."""
    try:
        file = read_index(storage, item)
    except (BadIndex, NotFound, RefusedFile):
        return None
    return replace(file, entries=tuple(map(_small, file.entries)))


def _small(entry: Entry) -> Entry:
    if entry.summary is not None or (entry.length or 0) <= _MOST_VALUE:
        return entry
    return msgspec.structs.replace(entry, start=None, length=None)


def _observation(
    files: Sequence[tuple[IndexFile, float]],
    rule: Watched,
    selection: Selection,
    storage: Storage,
) -> Observation:
    """Return the numbers of a step by the files of its workers, each with the time of writing."""
    first = files[0][0]
    same = (first.mode, first.mode_step)
    alike = [file for file, _ in files if (file.mode, file.mode_step) == same]
    tensors = read_step(alike, selection, storage)[rule.name]
    time = max(modified for _, modified in files)
    return observed(Step(first.step, first.mode, first.mode_step, time, tensors))
