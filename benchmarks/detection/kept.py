"""Kept runs, judged again without training."""

from __future__ import annotations

from pathlib import Path

from tocsin.rules import RECOMMENDED

from benchmarks.detection import families
from benchmarks.detection.chosen import chosen, listed
from benchmarks.detection.judge import Judged, judge
from benchmarks.detection.runs import runs_of

_MOST_SEEDS = 8


def kept(folder: Path, half: str, file: Path | None = None, jobs: int = 2) -> list[Judged]:
    """The runs of a half, or of both, that lie in a folder, under profile recommended; of the cases
    that a ``file`` names, if one is given. Those whose reference is not there are left out."""
    names = listed(file, families.every())
    cases = [
        case
        for each in families.HALVES
        if half in (each, "both")
        for case in chosen(families.cases(each), names=names)
    ]
    runs = [run for run in runs_of(cases, folder, _MOST_SEEDS) if run.is_made]
    made = {run.case for run in runs}
    there = {(case.family, case.name) for case in cases if case.folder in made}
    clear = {case.folder for case in cases if (case.family, case.reference) in there}
    runs = [run for run in runs if run.case in clear]
    return list(judge(cases, runs, jobs, [RECOMMENDED]).judged)
