"""What came out: for every run of a half, whether it is sick, and who said so when."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tocsin.rules import SAGEMAKER

from benchmarks.detection.evaluate import Alarm, Evaluation
from benchmarks.detection.faults import FAULTS
from benchmarks.detection.runs import Run
from benchmarks.detection.symptoms import Symptoms


@dataclass(frozen=True)
class Judged:
    """A run, whether its fault shows (never for a healthy one), and the alarms by profile."""

    run: Run
    shows: bool
    worse: float
    alarms: Mapping[str, tuple[Alarm, ...]]

    @property
    def fault(self) -> str:
        return self.run.setup.fault

    def caught(self, profile: str) -> bool:
        return bool(self.alarms[profile])

    def named(self, profile: str) -> bool:
        """Whether a rule fired that says what the fault is."""
        return any(alarm.rule in FAULTS[self.fault].expected for alarm in self.alarms[profile])

    def saves(self, profile: str) -> int | None:
        """How many saves it took until the first alarm."""
        return min((alarm.saves for alarm in self.alarms[profile]), default=None)


@dataclass(frozen=True)
class Result:
    """All runs of a half, judged. A fault's runs lie together."""

    judged: Sequence[Judged]

    @property
    def healthy(self) -> list[Judged]:
        return [one for one in self.judged if not one.fault]

    @property
    def symptomatic(self) -> list[Judged]:
        return [one for one in self.judged if one.fault and one.shows]

    @property
    def asymptomatic(self) -> list[Judged]:
        return [one for one in self.judged if one.fault and not one.shows]


def judge(
    runs: Sequence[Run],
    profiles: Sequence[str],
    ours: Mapping[str, Evaluation],
    amazons: Mapping[str, Evaluation],
) -> Result:
    """Put together what the runs' outcomes and the rules say."""
    symptoms = Symptoms(run for run in runs if not run.setup.fault)
    judged = []
    for run in runs:
        name, faulty = run.setup.name, bool(run.setup.fault)
        alarms = {
            profile: (amazons if profile == SAGEMAKER else ours)[name].of(profile)
            for profile in profiles
        }
        worse = symptoms.loss_of(run) if faulty else 0.0
        judged.append(Judged(run, faulty and symptoms.shows(run), worse, alarms))
    return Result(judged)


def median_saves(judged: Sequence[Judged], profile: str) -> str:
    found = [saves for one in judged if (saves := one.saves(profile)) is not None]
    return f"{statistics.median(found):g}" if found else "–"
