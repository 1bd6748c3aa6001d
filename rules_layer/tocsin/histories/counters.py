"""Finds what counts the steps of a table: a column, two of them, or the rows."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

# By preference. They are compared in lower case, without what stands before a "/" and without
# other characters than letters and digits.
_FINE = (
    "globalstep", "iteration", "iterations", "iter", "iters", "iterid", "itr", "it", "numiter",
    "currentstep", "currentsteps", "step", "steps", "trainstep", "trainsteps", "stepnum",
    "optimizerstep", "optimstep", "numupdates", "nupdates", "update", "updates",
    "totaltimesteps", "timesteps", "timestep", "timestepstotal", "numtimesteps",
    "totalenvinteracts", "totalsteps", "envsteps", "envstep", "agentsteps", "agentstep", "frames",
    "numsteps",
    "trainingiteration", "itération", "iteración", "iteração", "шаг", "步数", "迭代",
)  # fmt: skip
_WITHIN_EPOCH = ("batch", "batchidx", "batchnum", "batchindex", "minibatch", "batchno", "batchid")
_COARSE = (
    "epoch", "epochs", "epochnum", "epochnumber", "epochidx", "epochno", "numepoch", "currentepoch",
    "trainepoch", "nepoch", "ep", "epoche", "epoca", "época", "époque", "эпоха", "轮次", "round",
    "rounds", "roundnum", "fedround", "communicationround", "episode", "episodes", "eps",
    "episodenum", "generation", "gen", "cycle", "tree", "trees", "ntrees", "boostinground",
)  # fmt: skip
_INDEX = ("", "unnamed0", "index", "idx", "rownum", "no", "nr")

_RANK = {name: at for at, name in enumerate((*_FINE, *_WITHIN_EPOCH, *_COARSE, *_INDEX))}
_FEW = 0.05  # of the rows, that may repeat the step of the row before
_MOST_NAMES = 1 << 12  # of columns: each comes again in every row
_COVERED = 0.5  # of the rows, that must have a counter
_ALIKE = 0.95  # of the steps, that must come equally often where several processes write them
_CLOSE = 10  # rows for each process, within which all have written a step

Names = Sequence[str]
Numbers = Mapping[str, float]


@lru_cache(_MOST_NAMES)
def counter_key(name: str) -> str:
    """Return the name of a column as counters are compared, without what stands in brackets."""
    plain = re.sub(r"(?<=\w)\s*\(.*?\)", "", name)
    return re.sub(r"[^\w]|_", "", plain.rsplit("/", 1)[-1].lower())


@lru_cache(_MOST_NAMES)
def is_counter(name: str) -> bool:
    """Return whether a column's name says that it counts steps, epochs or rows."""
    return counter_key(name) in _RANK


def is_epoch(name: str) -> bool:
    """Return whether a column's name says that it counts epochs, or rows."""
    return counter_key(name) in (*_COARSE, *_INDEX)


@dataclass(frozen=True)
class Entry:
    """The numbers of a row by their columns, those of scalars by their names, and the training
    that the row belongs to."""

    numbers: Numbers
    scalars: Numbers
    training: str = ""


@dataclass(frozen=True)
class Counter:
    """The columns that count steps, the coarsest first; none: rows are counted.

    back: how often a series goes back to an earlier step; equal: how often it stays at one;
    same: how often it does so with the same value; missing: how many rows lack a column.
    ranked: whether it has fractions, whose order counts.
    copies: how many rows each step has, as each of several processes writes one.
    """

    columns: tuple[str, ...]
    back: int = 0
    equal: int = 0
    missing: int = 0
    same: int = 0
    ranked: bool = False
    copies: int = 1

    @property
    def cost(self) -> int:
        return self.back + self.equal + self.missing

    def position(self, numbers: Numbers) -> tuple[float, ...] | None:
        """Return where a row stands; None if it lacks a column."""
        found = tuple(numbers[name] for name in self.columns if name in numbers)
        return found if len(found) == len(self.columns) else None


def candidates(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the columns that may count the steps, the likeliest first."""
    known = sorted((name for name in names if is_counter(name)), key=_preference)
    keys = {name: counter_key(name) for name in known}
    fine = [name for name in known if keys[name] in _FINE]
    within = [name for name in known if keys[name] in _WITHIN_EPOCH]
    coarse = [name for name in known if keys[name] in _COARSE]
    index = [name for name in known if keys[name] in _INDEX]
    alone = [(name,) for name in (*fine, *coarse)]
    pairs = [(epoch, name) for epoch in coarse for name in (*fine, *within)]
    return [*alone, *pairs, *((name,) for name in index)]


def judged(columns: tuple[str, ...], entries: Sequence[Entry]) -> Counter | None:
    """Return the counter of these columns, and how well it orders the entries; None if it does
    not."""
    found = Counter(columns)
    last: dict[tuple[str, str], tuple[tuple[float, ...], float]] = {}
    back = equal = same = covered = 0
    places: dict[tuple[float, ...], list[int]] = {}  # of the entries of each position
    for at, entry in enumerate(entries):
        position = found.position(entry.numbers)
        if position is None or not all(-1e11 < part < 1e11 for part in position):
            continue
        covered += bool(entry.scalars)
        places.setdefault(position, []).append(at)
        goes_back = repeats = stays = is_new = False
        for name, value in entry.scalars.items():
            before = last.get((entry.training, name))
            if before is not None:
                goes_back = goes_back or position < before[0]
                repeats = repeats or (position == before[0] and value != before[1])
                stays = stays or position == before[0]
            is_new = is_new or before is None or position > before[0]
            last[entry.training, name] = position, value
        back += goes_back
        equal += repeats and not is_new  # else the row overwrites what stands beside it at most
        same += stays and not repeats and not is_new
    rows = sum(1 for entry in entries if entry.scalars)
    if covered < max(1, _COVERED * rows) or (len(places) == 1 and rows > 1):
        return None
    ranked = len(columns) == 1 and not all(position[0].is_integer() for position in places)
    if ranked and counter_key(columns[0]) in _INDEX:
        return None
    copies = 1
    if (
        (back or equal)
        and not is_epoch(columns[-1])
        and (copies := _copies([*places.values()])) > 1
    ):
        back = equal = 0
    return Counter(columns, back, equal, rows - covered, same, ranked, copies)


def _copies(places: Sequence[Sequence[int]]) -> int:
    """Return how many rows each step has, if nearly all have as many, close together; else 1.

    Steps that come again after many others are of another training.
    """
    (most, _), *_ = Counts(map(len, places)).most_common(1) or [(1, 0)]
    apart = _CLOSE * most if len(places) > 2 * _CLOSE * most else most - 1
    alike = sum(len(own) == most and own[-1] - own[0] <= apart for own in places)
    return most if alike >= _ALIKE * len(places) else 1


def best_counter(
    columns: Iterable[tuple[str, ...]], entries: Sequence[Entry], *, given: bool = False
) -> Counter | None:
    """Return the counter along which the fewest values overwrite others; None if all of them do.

    given: whether the user named it, so that it counts whatever it overwrites.
    """
    known = [found for each in columns if (found := judged(each, entries)) is not None]
    usable = [found for found in known if given or found.equal <= max(2, _FEW * len(entries))]
    return min(usable, key=lambda found: found.cost, default=None)


def _preference(name: str) -> tuple[int, int]:
    return _RANK[counter_key(name)], len(name)


@dataclass
class Steps:
    """Gives rows their steps: whole numbers that grow as the counter does."""

    counter: Counter
    rows: int = 0
    carried: int = 0
    _epoch: float | None = None
    _offset: float = 0.0
    _highest: float = 0.0
    _lowest: float | None = None
    _ranked: list[float] = field(default_factory=list)
    _last: int | None = None
    _beside: int = 0
    _seen: set[tuple[str, int]] = field(default_factory=set)

    def is_copy(self, name: str, step: int) -> bool:
        """Return whether another process has written this scalar at this step before."""
        if self.counter.copies == 1:
            return False
        known = len(self._seen)
        self._seen.add((name, step))
        return len(self._seen) == known

    def of(self, numbers: Numbers) -> tuple[int | None, bool]:
        """Return the step of the next row, and whether it is that of the row before, as the row has
        none.

        None: there was no step so far.
        """
        self.rows += 1
        self._beside = 0
        if not self.counter.columns:
            return self.rows - 1, False
        position = self.counter.position(numbers)
        if position is None:
            return self._last, True
        value = position[0] if len(position) == 1 else self._across(*position)
        self._last = self._rank(value) if self.counter.ranked else int(value)
        return self._last, False

    def beside(self) -> tuple[int | None, bool]:
        """Return the step of a row that does not count: that of the row before, and from there
        on."""
        self._beside += 1
        return None if self._last is None else self._last + self._beside - 1, True

    def _across(self, epoch: float, within: float) -> float:
        """A counter that begins again with each epoch, continued over epochs."""
        if self._epoch is None or epoch < self._epoch:
            self._offset = self._highest = 0.0
        elif epoch > self._epoch and within <= self._highest - self._offset:
            self._offset = self._highest + (1.0 if self._lowest == 0 else 0.0)
        self._epoch = epoch
        self._lowest = within if self._lowest is None else min(self._lowest, within)
        found = self._offset + within
        self._highest = max(self._highest, found)
        return found

    def _rank(self, value: float) -> int:
        """The place of a fraction of an epoch among those before."""
        at = bisect_left(self._ranked, value)
        if at == len(self._ranked):
            self._ranked.append(value)
        return at
