"""The tensors that a rule reads: one answer for the hook that captures and for the evaluation."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from tocsin.contracts import spellings
from tocsin.model import Role
from tocsin.rules import Read
from tocsin.tensors import BadPattern, search
from tocsin.tensors.patterns import SECONDS
from tocsin.watch.watched import Watched

_QUICK = 1e-3  # seconds; a usual pattern takes a few millionths


class Candidate(Protocol):
    """A tensor that a rule may read: one that a hook may save, or an entry of an index file."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> tuple[Role | None, str | None]:
        """Its role and its kind."""

    def belongs_to(self, collection: str) -> bool: ...


class PatternMatcher:
    """Searches names for patterns that come from files.

    A pattern that failed ``tries`` times, because it does not compile or is too slow, is bad: it
    is not tried again and matches nothing. ``bad`` says why, by whose it is and what it is;
    ``report`` is called with each, once. All searches that are not quick have ``budget`` seconds
    together; after that a pattern that is not quick is bad.
    """

    def __init__(
        self,
        tries: int = 1,
        report: Callable[[str, str], object] = lambda owner, why: None,
        budget: float = math.inf,
    ) -> None:
        self._left = budget
        self.bad: dict[tuple[str, str], str] = {}
        self._tries = tries
        self._report = report
        self._failures = Counter[str]()

    def matches(self, patterns: Iterable[str], name: str, owner: str) -> bool:
        """Return whether a pattern is found in a name. ``owner`` is whose the patterns are."""
        return any(self._found(pattern, name, owner) for pattern in patterns)

    def _found(self, pattern: str, name: str, owner: str) -> bool:
        if self._failures and self._failures[pattern] >= self._tries:
            return False
        began = time.monotonic()
        try:
            return search(pattern, name, min(SECONDS, max(self._left, _QUICK)))
        except BadPattern as error:
            self._failures[pattern] += 1
            if self._failures[pattern] >= self._tries:
                self.bad[owner, pattern] = str(error)
                self._report(owner, str(error))
            return False
        finally:
            taken = time.monotonic() - began
            self._left -= taken if taken > _QUICK else 0.0


def reads_of(
    rule: Watched, tensor: Candidate, matcher: PatternMatcher, *, alone: bool
) -> Iterator[tuple[str, Read]]:
    """Yield the reads of a rule that select a tensor, with their names.

    ``alone``: the run has a single worker, so that a rule that compares workers reads nothing.
    """
    if alone and rule.reads.peers:
        return
    owner, options = f"rule {rule.name}", rule.options
    names = spellings(tensor.name)
    if options.include and not any(matcher.matches(options.include, n, owner) for n in names):
        return
    if any(matcher.matches(options.exclude, n, owner) for n in names):
        return
    for name, read in rule.reads.tensors.items():
        if _selects(read, tensor, matcher, owner):
            yield name, read


def asks_for_names(rule: Watched) -> bool:
    """Return whether what a rule reads depends on names of tensors, beside their roles and
    kinds."""
    reads = rule.reads.tensors.values()
    patterns = rule.options.include or rule.options.exclude
    return bool(patterns) or any(read.collections or read.regex for read in reads)


def _selects(read: Read, tensor: Candidate, matcher: PatternMatcher, owner: str) -> bool:
    if read.collections or read.regex:
        named = any(map(tensor.belongs_to, read.collections))
        return named or matcher.matches(read.regex, tensor.name, owner)
    if not (read.roles or read.kinds):
        return True
    role, kind = tensor.place
    return (not read.roles or role in read.roles) and (not read.kinds or kind in read.kinds)
