"""The runs of a part beside what each profile said of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tocsin.rules import RECOMMENDED

from benchmarks.detection.case import Case
from benchmarks.detection.causes import named_by
from benchmarks.detection.evaluate import Alarm, Evaluation, evaluate
from benchmarks.detection.runs import Run
from benchmarks.detection.truth import Truth, references, truth


@dataclass(frozen=True)
class Judged:
    """A run, what it is in truth, and what the profiles said of it; nothing of one undecided."""

    case: Case
    run: Run
    skill: float | None
    reference: float
    truth: Truth
    evaluations: Mapping[str, Evaluation]

    def alarm(self, profile: str = RECOMMENDED) -> Alarm | None:
        """The first alarm that counts."""
        return self.evaluations[profile].first

    @property
    def lead(self) -> str | None:
        """The rule or contract of the finding that people read first, if there is an alarm."""
        alarm = self.evaluations[RECOMMENDED].lead
        return alarm.name if alarm else None

    def named(self, profile: str = RECOMMENDED) -> bool:
        """Return whether the finding that leads names a cause of the fault."""
        alarm = self.evaluations[profile].lead
        return alarm is not None and alarm.name in named_by(self.case.causes)


@dataclass(frozen=True)
class Result:
    judged: Sequence[Judged]

    def of(self, truth: Truth) -> list[Judged]:
        return [one for one in self.judged if one.truth == truth]

    def by(self, key: Callable[[Case], str]) -> dict[str, Result]:
        """Return the results of cases that have a property in common, by that property."""
        found: dict[str, list[Judged]] = {}
        for one in self.judged:
            found.setdefault(key(one.case), []).append(one)
        return {name: Result(judged) for name, judged in sorted(found.items())}


def judge(
    cases: Iterable[Case],
    runs: Sequence[Run],
    jobs: int = 2,
    profiles: Sequence[str] = (RECOMMENDED,),
) -> Result:
    """Decide what each run is, then let the rules watch all but those undecided."""
    known = {case.folder: case for case in cases}
    aims = references(known, runs)
    decided: dict[Run, Truth] = {}
    for run in runs:
        case = known[run.case]
        decided[run] = truth(case, run.ending.skill, aims[case.group, case.reference])
    clear = [run for run in runs if decided[run] != "undecided"]
    found = {profile: evaluate(clear, profile, jobs) for profile in profiles}
    return Result([
        Judged(
            case := known[run.case],
            run,
            run.ending.skill,
            aims[case.group, case.reference],
            decided[run],
            {profile: found[profile][run] for profile in profiles if run in found[profile]},
        )
        for run in runs
    ])  # fmt: skip


def median_share(judged: Iterable[Judged], profile: str = RECOMMENDED) -> str:
    """The median share of a run at which faults were found."""
    shares = [alarm.share for one in judged if (alarm := one.alarm(profile)) is not None]
    return f"{100 * statistics.median(shares):.0f} %" if shares else "–"
