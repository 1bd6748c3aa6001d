"""Kept runs, judged again without training."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tocsin.rules import RECOMMENDED

from benchmarks.detection import catalogue
from benchmarks.detection.case import Case
from benchmarks.detection.judge import Judged, judge
from benchmarks.detection.runs import Run, runs_of

_MOST_SEEDS = 8


def made(cases: Iterable[Case], folder: Path) -> list[Run]:
    """Return the runs of some cases that lie in a folder, without those whose reference is not
    there."""
    known = list(cases)
    runs = [run for run in runs_of(known, folder, _MOST_SEEDS) if run.is_made]
    there = {run.case for run in runs}
    clear = {(case.group, case.name) for case in known if case.folder in there}
    judgeable = {case.folder for case in known if (case.group, case.reference) in clear}
    return [run for run in runs if run.case in judgeable]


def kept(folder: Path, jobs: int = 2) -> list[Judged]:
    """Return all runs that lie in a folder, under profile recommended."""
    cases = catalogue.every()
    return list(judge(cases, made(cases, folder), jobs, [RECOMMENDED]).judged)
