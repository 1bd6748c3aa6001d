"""Measures how well the rules distinguish faulty from healthy trainings.

    python -m benchmarks.detection [--quick] [--only TEXT] [--keep FOLDER]
    python -m benchmarks.detection --judge FOLDER [--write]

Trains a fixed sample of some hundred small models with the hook attached, healthy and with
mistakes, decides by their own skill on held-out data which are harmful, lets the rules watch them,
and prints how many are found, named, and alarmed without reason, and each miss. ``--keep`` keeps
the runs, and trains only those that are not there yet; ``--judge`` judges kept runs again without
training, and prints on which of them the rules say something else than when they were kept.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.detection.environment import enter

if TYPE_CHECKING:
    from benchmarks.detection.case import Case

PARTS = ("tasks", "scripts", "held_out")

RECOMMENDED = "recommended"
PROFILES = (RECOMMENDED, "sagemaker")

ENOUGH = 100
"""Healthy runs, and harmful ones, that the figures on the page need."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="about sixty small runs")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all but held_out")
    parser.add_argument(
        "--only", metavar="TEXT", help="cases, also outside the sample, whose 'group/name' holds it"
    )
    parser.add_argument(
        "--cases", metavar="FILE", type=Path, help="cases named there, a 'group/name' a line"
    )
    parser.add_argument("--profile", choices=PROFILES, action="append", help="default: recommended")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the runs there")
    parser.add_argument("--judge", metavar="FOLDER", type=Path, help="judge runs that lie there")
    parser.add_argument("--seeds", type=int, default=1, help="of each case")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--minutes", type=float, help="after so many no training is begun")
    parser.add_argument("--save-interval", type=int, help="instead of the hook's default")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write both pages of docs",
    )
    arguments = parser.parse_args()
    if arguments.write and (arguments.quick or arguments.only or arguments.cases):
        parser.error("--write is for the whole sample")
    enter()
    with tempfile.TemporaryDirectory(prefix="tocsin-detection-") as folder:
        run(arguments, arguments.judge or arguments.keep or Path(folder))


def run(arguments: argparse.Namespace, folder: Path) -> None:
    # In the environment only: the one that this started in may lack what these need.
    from benchmarks.detection import verdicts
    from benchmarks.detection.judge import Result, judge
    from benchmarks.detection.kept import made
    from benchmarks.detection.make import make
    from benchmarks.detection.report import TABLES, breakdown, lists, overall, write
    from benchmarks.detection.runs import runs_of

    started = time.monotonic()
    by_part = {part: cases_of(part, arguments) for part in arguments.part or PARTS[:2]}
    if arguments.judge is None:
        until = started + 60 * arguments.minutes if arguments.minutes else math.inf
        runs = [run for part in by_part.values() for run in runs_of(part, folder, arguments.seeds)]
        make(runs, arguments.jobs, arguments.save_interval, until)
    trained = time.monotonic() - started
    profiles = arguments.profile or [RECOMMENDED]
    results: dict[str, Result] = {
        part: judge(cases, runs, arguments.jobs, profiles)
        for part, cases in by_part.items()
        if (runs := made(cases, folder))
    }
    summary, tables = overall(results, profiles), breakdown(results)
    print(f"{summary}\n{tables}\n{lists(results)}")
    if RECOMMENDED in profiles:
        judged = [one for result in results.values() for one in result.judged]
        before, after = verdicts.read(folder), verdicts.verdicts(judged)
        if arguments.judge:
            changed = verdicts.changes(before, after)
            print(f"**Changed since the runs were kept** ({len(changed)})", *changed, "", sep="\n")
        else:
            verdicts.write(folder, {**before, **after})
    print(
        f"{sum(len(r.judged) for r in results.values())} runs trained in {trained:.0f} s, "
        f"judged in {time.monotonic() - started - trained:.0f} s, {arguments.jobs} processes, "
        f"{platform.machine()}, Python {platform.python_version()}"
    )
    every = [e for r in results.values() for one in r.judged for e in one.evaluations.values()]
    if failed := sorted({rule for evaluation in every for rule in evaluation.failed}):
        sys.exit(f"rules that ended in an error: {', '.join(failed)}")
    if arguments.write:
        for truth in ("healthy", "harmful"):
            if (count := sum(len(result.of(truth)) for result in results.values())) < ENOUGH:
                sys.exit(f"{count} {truth} runs are too few to write: {ENOUGH}")
        write(summary)
        write(tables, TABLES)


def cases_of(part: str, arguments: argparse.Namespace) -> list[Case]:
    """Return the cases of a part that the command line asks for."""
    from benchmarks.detection import catalogue, sample
    from benchmarks.detection.chosen import chosen, listed

    cases = catalogue.cases(part)
    if arguments.only or arguments.cases:
        return chosen(cases, arguments.only, listed(arguments.cases, catalogue.every()))
    drawn = {
        "tasks": sample.of_tasks,
        "scripts": sample.of_scripts,
        "held_out": list,
    }[part](cases)
    return sample.quick(drawn) if arguments.quick else drawn


if __name__ == "__main__":
    main()
