"""Which tensors of a run a rule's reads select."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tocsin.evaluation._references import depth
from tocsin.model import COLLECTION_ROLES, Detail, Role
from tocsin.rules import Read
from tocsin.tensors import BadPattern, Collections, Entry, collected, named, search
from tocsin.watch import Options, Watched

Known = tuple[Role | None, str | None]  # role and kind


@dataclass(frozen=True)
class Chosen:
    """The reads that select a tensor (rule, name of the read, read), and what they need of it
    altogether: ``depth`` is how many earlier saves. With its role and kind.
    """

    reads: tuple[tuple[Watched, str, Read], ...]
    fields: frozenset[str]
    details: tuple[Detail, ...]
    values: bool
    depth: int
    role: Role | None
    kind: str | None


@dataclass(frozen=True)
class Selection:
    """Answers once per tensor name: its role and kind, and the reads that want it.

    What a hook wrote into the index goes before what the collections say, and that before what
    the name tells.
    """

    watched: tuple[Watched, ...]
    collections: Collections | None
    _chosen: dict[tuple[str, str | None, str | None], Chosen | None] = field(default_factory=dict)
    _known: dict[str, Known] = field(default_factory=dict)
    bad_patterns: dict[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> tuple[str, ...]:
        """The other runs that rules compare with."""
        return tuple(sorted({run for rule in self.watched for run in rule.reads.runs}))

    @property
    def _alone(self) -> bool:
        return self.collections is not None and self.collections.num_workers == 1

    def role(self, entry: Entry) -> Role | None:
        if entry.role is not None and entry.role in Role.__members__.values():
            return Role(entry.role)
        return self._of(entry.name)[0]

    def kind(self, entry: Entry) -> str | None:
        """What activation it is, and the like; of no use where the index has another role."""
        if entry.kind is not None:
            return entry.kind
        role, kind = self._of(entry.name)
        return kind if self.role(entry) is role else None

    def chosen(self, entry: Entry) -> Chosen | None:
        """The reads that select this tensor; None if there is none."""
        key = (entry.name, entry.role, entry.kind)
        if key not in self._chosen:
            self._chosen[key] = self._choose(entry)
        return self._chosen[key]

    def _choose(self, entry: Entry) -> Chosen | None:
        found = tuple(
            (rule, name, read)
            for rule in self.watched
            if self._passes(rule.options, entry.name) and not (rule.reads.peers and self._alone)
            for name, read in rule.reads.tensors.items()
            if self._selects(read, entry)
        )
        if not found:
            return None
        reads = [read for _, _, read in found]
        return Chosen(
            found,
            frozenset(field for read in reads for field in read.fields),
            tuple({read.detail: None for read in reads if read.detail is not None}),
            any(read.values for read in reads),
            max(map(depth, reads)),
            self.role(entry),
            self.kind(entry),
        )

    def _selects(self, read: Read, entry: Entry) -> bool:
        if read.collections or read.regex:
            named = any(self._in_collection(name, entry.name) for name in read.collections)
            return named or self._matches(read.regex, entry.name)
        if read.kinds and self.kind(entry) not in read.kinds:
            return False
        return not read.roles or self.role(entry) in read.roles

    def _in_collection(self, collection: str, name: str) -> bool:
        if collection == "all":
            return True
        known = self.collections.collections.get(collection) if self.collections else None
        return known is not None and (
            name in known.tensor_names or self._matches(known.include_regex, name)
        )

    def _of(self, name: str) -> Known:
        if name not in self._known:
            self._known[name] = self._resolved(name)
        return self._known[name]

    def _resolved(self, name: str) -> Known:
        """What the collections say, and where they are silent the name."""
        by_name = named(name)
        role, kind = self._by_collection(name)
        if by_name is None:
            return role, kind
        if role is Role.LOSS and by_name[0] is Role.METRIC:  # smdebug's losses: all but auc, map
            return by_name
        if role is None:
            return by_name
        return role, kind or (by_name[1] if by_name[0] is role else None)

    def _by_collection(self, name: str) -> Known:
        roles = (
            role for known, role in COLLECTION_ROLES.items() if self._in_collection(known, name)
        )
        role = next(roles, None)
        for collection in self.collections.collections if self.collections else ():
            found = collected(collection)
            if found is None or found[1] is None or not self._in_collection(collection, name):
                continue
            if role in (None, found[0]):
                return found
        return role, None

    def _passes(self, options: Options, name: str) -> bool:
        wanted = not options.include or self._matches(options.include, name)
        return wanted and not self._matches(options.exclude, name)

    def _matches(self, patterns: Iterable[str], name: str) -> bool:
        """Whether any pattern is found in the name; one that fails is not tried again."""
        for pattern in patterns:
            if pattern in self.bad_patterns:
                continue
            try:
                if search(pattern, name):
                    return True
            except BadPattern as error:
                self.bad_patterns[pattern] = str(error)
        return False
