"""Which tensors of a run a rule's reads select."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tocsin.model import COLLECTION_ROLES, Role
from tocsin.rules import Read
from tocsin.tensors import BadPattern, Collections, Entry, search
from tocsin.watch import Options, Watched

Chosen = tuple[tuple[Watched, str, Read], ...]


@dataclass(frozen=True)
class Selection:
    """Answers once per tensor name: its role, and the reads that want it.

    What a hook wrote into the index (role, kind) goes before what the collections say.
    """

    watched: tuple[Watched, ...]
    collections: Collections | None
    _chosen: dict[tuple[str, str | None, str | None], Chosen] = field(default_factory=dict)
    _roles: dict[str, Role | None] = field(default_factory=dict)
    bad_patterns: dict[str, str] = field(default_factory=dict)

    def role(self, entry: Entry) -> Role | None:
        if entry.role is not None and entry.role in Role.__members__.values():
            return Role(entry.role)
        if entry.name not in self._roles:
            self._roles[entry.name] = self._collection_role(entry.name)
        return self._roles[entry.name]

    def reads(self, entry: Entry) -> Chosen:
        """The (rule, name of the read, read) that select this tensor."""
        key = (entry.name, entry.role, entry.kind)
        if key not in self._chosen:
            self._chosen[key] = tuple(
                (rule, name, read)
                for rule in self.watched
                if self._passes(rule.options, entry.name)
                for name, read in rule.reads.tensors.items()
                if self._selects(read, entry)
            )
        return self._chosen[key]

    def _selects(self, read: Read, entry: Entry) -> bool:
        if read.collections or read.regex:
            named = any(self._in_collection(name, entry.name) for name in read.collections)
            return named or self._matches(read.regex, entry.name)
        if read.kinds and entry.kind not in read.kinds:
            return False
        return not read.roles or self.role(entry) in read.roles

    def _in_collection(self, collection: str, name: str) -> bool:
        if collection == "all":
            return True
        known = self.collections.collections.get(collection) if self.collections else None
        return known is not None and (
            name in known.tensor_names or self._matches(known.include_regex, name)
        )

    def _collection_role(self, name: str) -> Role | None:
        for collection, role in COLLECTION_ROLES.items():
            if self._in_collection(collection, name):
                return role
        return None

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
