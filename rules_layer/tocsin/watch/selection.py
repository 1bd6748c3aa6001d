"""The tensors of a run that its rules read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tocsin.model import COLLECTION_ROLES, Role
from tocsin.rules import Read
from tocsin.tensors import Collections, Entry, collected, named, place
from tocsin.watch.arrangement import UPDATE_FIELDS, Arrangement, Chosen, arranged
from tocsin.watch.selector import PatternMatcher, asks_for_names, reads_of
from tocsin.watch.watched import Watched

_BUDGET = 1.0  # seconds for the patterns of a look
_MOST_BAD = 20  # patterns that are reported
_ROLES = frozenset(Role)
_NONE = Collections(0)
_PATTERN = "pattern "
_MOST_ARRANGED = 64  # lists of tensors; most runs have one for each mode


@dataclass(frozen=True)
class Selection:
    """Finds the reads that select a tensor, once for each name.

    The role in the index counts first, then the collections, then the name. ``reported`` are the
    problems of earlier looks.
    """

    watched: tuple[Watched, ...]
    collections: Collections | None
    reported: tuple[tuple[str, str], ...] = ()
    _matcher: PatternMatcher = field(default_factory=lambda: PatternMatcher(budget=_BUDGET))
    _chosen: dict[tuple[str, str | None, str | None], Chosen | None] = field(default_factory=dict)
    _of_place: dict[tuple[Role | None, str | None], Chosen | None] = field(default_factory=dict)
    _arranged: dict[tuple[int, ...], Arrangement] = field(default_factory=dict)

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """The other runs that rules compare with."""
        return tuple(sorted({run for rule in self.watched for run in rule.reads.runs}))

    @property
    def bad_patterns(self) -> tuple[tuple[str, str], ...]:
        """Patterns that are not used, with where they stand and why.

        Those of earlier looks stay while they are configured: not every look tries all patterns.
        """
        found = {_where(*at): why for at, why in self._matcher.bad.items()}
        if any(where.startswith(_PATTERN) for where, _ in self.reported):
            configured = {_where(*at) for at in self._patterns()}
            found = {where: why for where, why in self.reported if where in configured} | found
        return tuple(found.items())[:_MOST_BAD]

    def chosen(self, entry: Entry) -> Chosen | None:
        """Return the reads that select this tensor; None if there is none."""
        key = (entry.name, entry.role, entry.kind)
        if key not in self._chosen:
            self._chosen[key] = self._choose(entry)
        return self._chosen[key]

    def arranged(self, chosen: Sequence[Chosen]) -> Arrangement:
        """Return the tensors of a step by rule and read, given what ``chosen`` returned for
        each."""
        key = tuple(map(id, chosen))  # they live as long as this selection
        if key not in self._arranged:
            if len(self._arranged) >= _MOST_ARRANGED:
                self._arranged.clear()
            self._arranged[key] = arranged(self.watched, chosen)
        return self._arranged[key]

    def place(self, entry: Entry) -> tuple[Role | None, str | None]:
        """Return the role and the kind of a tensor."""
        role = Role(entry.role) if entry.role in _ROLES else None
        return place(entry.name, self._collections_of(entry.name), role, entry.kind)

    def contains(self, collection: str, name: str) -> bool:
        """Return whether a tensor is in a collection of the run."""
        if collection == "all":
            return True
        known = self.collections.collections.get(collection) if self.collections else None
        return known is not None and (
            known.lists(name)
            or self._matcher.matches(known.include_regex, name, f"collection {collection}")
        )

    @cached_property
    def reads_runs(self) -> bool:
        """Return whether a rule reads the run itself, as a trial."""
        return any(rule.reads.trial for rule in self.watched)

    @property
    def _alone(self) -> bool:
        return self.collections is not None and self.collections.num_workers == 1

    def _choose(self, entry: Entry) -> Chosen | None:
        tensor = _Listed(entry, self)
        named = self._reads(self._by_name, tensor)
        if tensor.place not in self._of_place:
            self._of_place[tensor.place] = self._join(self._reads(self._by_place, tensor), tensor)
        placed = self._of_place[tensor.place]
        if not named:
            return placed
        return self._join(named + (placed.reads if placed else ()), tensor)

    @cached_property
    def _by_place(self) -> tuple[Watched, ...]:
        """The rules to which all tensors of one role and kind are the same."""
        return tuple(rule for rule in self.watched if not asks_for_names(rule))

    @cached_property
    def _by_name(self) -> tuple[Watched, ...]:
        return tuple(rule for rule in self.watched if asks_for_names(rule))

    def _reads(
        self, rules: tuple[Watched, ...], tensor: _Listed
    ) -> tuple[tuple[Watched, str, Read], ...]:
        return tuple(
            (rule, name, read)
            for rule in rules
            for name, read in reads_of(rule, tensor, self._matcher, alone=self._alone)
        )

    def _join(self, found: tuple[tuple[Watched, str, Read], ...], tensor: _Listed) -> Chosen | None:
        if not found:
            return None
        reads = [read for _, _, read in found]
        role, kind = tensor.place
        return Chosen(
            found,
            frozenset(field for read in reads for field in read.fields),
            tuple({read.detail: None for read in reads if read.detail is not None}),
            any(read.values for read in reads),
            max(map(_depth, reads)),
            role,
            kind,
        )

    def _collections_of(self, name: str) -> Iterator[str]:
        """The collections that show the role of a tensor, the most specific first.

        smdebug's ``losses`` hold XGBoost's auc and map, too, which are metrics.
        """
        by_name = named(name)
        metric = by_name is not None and by_name[0] is Role.METRIC
        for collection in {**COLLECTION_ROLES, **(self.collections or _NONE).collections}:
            if collected(collection) is None or (metric and collection == "losses"):
                continue
            if self.contains(collection, name):
                yield collection

    def _patterns(self) -> Iterator[tuple[str, str]]:
        """All patterns that are configured, with whose they are."""
        for rule in self.watched:
            reads = rule.reads.tensors.values()
            own = (pattern for read in reads for pattern in read.regex)
            for pattern in (*rule.options.include, *rule.options.exclude, *own):
                yield f"rule {rule.name}", pattern
        for name, collection in (self.collections or _NONE).collections.items():
            for pattern in collection.include_regex:
                yield f"collection {name}", pattern


def _depth(read: Read) -> int:
    """Return how many earlier saves a read needs: those it asks for, or one to compute an update
    from."""
    return max(read.back, int(not UPDATE_FIELDS.isdisjoint(read.fields)))


@dataclass(frozen=True)
class _Listed:
    """A tensor of an index file, as the selector looks at it."""

    entry: Entry
    selection: Selection

    @property
    def name(self) -> str:
        return self.entry.name

    @cached_property
    def place(self) -> tuple[Role | None, str | None]:
        return self.selection.place(self.entry)

    def belongs_to(self, collection: str) -> bool:
        return self.selection.contains(collection, self.entry.name)


def _where(owner: str, pattern: str) -> str:
    return f"{_PATTERN}{pattern!r} of {owner}"
