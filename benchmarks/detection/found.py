"""Find what fired on a run: rules, and each contract on its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tocsin.contracts import find, id_and_place
from tocsin.model import Role, Severity
from tocsin.rules import RECOMMENDED
from tocsin.tensors import BadIndex, Storage, index_objects, open_storage, read_index

from benchmarks.detection.causes import named_by
from benchmarks.detection.evaluate import CONTRACTS, Alarm
from benchmarks.detection.judge import Judged
from benchmarks.detection.progress import work
from benchmarks.detection.runs import Run


@dataclass(frozen=True)
class Seen:
    """A judged run, with what counts on it: ``rules`` that fired, and broken ``contracts``, under
    their ids."""

    judged: Judged
    rules: tuple[Alarm, ...]
    contracts: tuple[Alarm, ...] = ()

    @property
    def parts(self) -> tuple[Alarm, ...]:
        """All that fired, each reason once: contracts in place of the rule about them."""
        rules = tuple(alarm for alarm in self.rules if alarm.rule != CONTRACTS)
        return (*rules, *self.contracts) if self.contracts else self.rules

    def names(self, alarm: Alarm) -> bool:
        """Return whether an alarm says what the fault is."""
        return alarm.name in named_by(self.judged.case.causes)


def seen(judged: Iterable[Judged], jobs: int = 2) -> list[Seen]:
    """Each run that is not undecided, with what counts on it."""
    clear = [one for one in judged if one.truth != "undecided"]
    fired = {one.run: _firsts(one.evaluations[RECOMMENDED].alarms) for one in clear}
    broken = [run for run, rules in fired.items() if any(a.rule == CONTRACTS for a in rules)]
    contracts = dict(work("contracts", contracts_of, broken, jobs))
    return [Seen(one, fired[one.run], contracts.get(one.run, ())) for one in clear]


def _firsts(alarms: Iterable[Alarm]) -> tuple[Alarm, ...]:
    """The first alarm of each rule, of those that count."""
    first: dict[str, Alarm] = {}
    for alarm in sorted((each for each in alarms if each.counts), key=lambda each: each.step):
        first.setdefault(alarm.rule, alarm)
    return tuple(first.values())


def contracts_of(run: Run) -> tuple[Run, tuple[Alarm, ...]]:
    """The contracts that a run's hook found broken, as alarms that have their ids."""
    found = _broken(open_storage(run.tensors))
    last = max([1, *(alarm.step for alarm in found)])
    return run, tuple(replace(alarm, share=alarm.step / last) for alarm in found if alarm.counts)


def _broken(storage: Storage) -> Sequence[Alarm]:
    first: dict[str, Alarm] = {}
    for listed in index_objects(storage):
        try:
            index = read_index(storage, listed)
        except BadIndex:
            continue
        for entry in index.entries:
            if entry.role == Role.CONTRACT.value and entry.summary and entry.summary.max:
                alarm = _alarm(entry.name, index.step)
                first.setdefault(alarm.rule, alarm)
    return tuple(first.values())


def _alarm(tensor: str, step: int) -> Alarm:
    key, _ = id_and_place(tensor)
    known = find(key)
    if known is None:
        return Alarm(key, Severity.WARNING.value, step, 0.0, tensor, "")
    return Alarm(known.id, known.severity.value, step, 0.0, tensor, known.text)
