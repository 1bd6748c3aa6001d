"""One row for each rule and each contract: what it found, and what would be lost without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.detection.evaluate import CONTRACTS, Alarm
from benchmarks.detection.found import Seen
from benchmarks.detection.pairs import Pair
from benchmarks.detection.truth import Truth


@dataclass(frozen=True)
class Row:
    """The harmful and healthy runs on which a rule or contract fired, counted.

    found: harmful ones.
    first: of these, with no finding before it.
    alone: with no other finding.
    named: where it says what the fault is.
    alarmed: healthy ones; alarmed_alone: with no other finding.
    """

    name: str
    found: int = 0
    first: int = 0
    alone: int = 0
    named: int = 0
    alarmed: int = 0
    alarmed_alone: int = 0

    @property
    def is_filled(self) -> bool:
        """Return whether it fired on any run."""
        return bool(self.found or self.alarmed)


def rule_rows(runs: Sequence[Seen], names: Iterable[str]) -> list[Row]:
    """The rows of rules, those first that find the most runs alone."""
    return _rows(names, [(one, _by_name(one.rules), _by_name(one.rules)) for one in runs])


def contract_rows(runs: Sequence[Seen], names: Iterable[str]) -> list[Row]:
    """The rows of contracts. One is alone if no other is broken and no other rule fires."""
    return _rows(names, [(one, _by_name(one.contracts), _by_name(one.parts)) for one in runs])


def mechanism_row(name: str, both: Sequence[Pair]) -> tuple[str, int, int, int, int, int]:
    """A mechanism, from runs with it before those without it: its name, the runs, harmful ones that
    are found with it alone and without it alone, and healthy ones that are alarmed so."""
    clear = [pair for pair in both if pair.is_clear]
    return name, len(clear), *_only("harmful", clear), *_only("healthy", clear)


def _only(truth: Truth, clear: Sequence[Pair]) -> tuple[int, int]:
    fired = [
        tuple(one.alarm() is not None for one in pair.both)
        for pair in clear
        if pair.before.truth == truth
    ]
    return fired.count((True, False)), fired.count((False, True))


_OnRun = tuple[Seen, Mapping[str, Alarm], Mapping[str, Alarm]]
"""A run, the alarms that get a row, and all that fired beside them."""


def _rows(names: Iterable[str], runs: Sequence[_OnRun]) -> list[Row]:
    every = dict.fromkeys([*names, *(name for _, own, _ in runs for name in own)])
    return sorted((_row(name, runs) for name in every), key=_most_first)


def _row(name: str, runs: Sequence[_OnRun]) -> Row:
    on = [(one, own[name], beside) for one, own, beside in runs if name in own]
    harmful = [each for each in on if each[0].judged.truth == "harmful"]
    healthy = [each for each in on if each[0].judged.truth == "healthy"]
    return Row(
        name,
        found=len(harmful),
        first=sum(alarm.step <= _first(beside) for _, alarm, beside in harmful),
        alone=sum(len(beside) == 1 for *_, beside in harmful),
        named=sum(one.names(alarm) for one, alarm, _ in harmful),
        alarmed=len(healthy),
        alarmed_alone=sum(len(beside) == 1 for *_, beside in healthy),
    )


def _first(alarms: Mapping[str, Alarm]) -> int:
    return min(alarm.step for alarm in alarms.values())


def _by_name(alarms: Iterable[Alarm]) -> dict[str, Alarm]:
    return {alarm.rule: alarm for alarm in alarms}


def _most_first(row: Row) -> tuple[int, int, int, bool, str]:
    return -row.alone, -row.first, -row.found, row.name != CONTRACTS, row.name
