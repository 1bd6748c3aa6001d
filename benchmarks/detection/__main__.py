"""Measures how well the rules distinguish faulty from healthy trainings.

    python -m benchmarks.detection [--half design|report] [--only FAMILY] [--keep FOLDER] [--write]
    python -m benchmarks.detection --judge FOLDER [--write]

Trains some hundred small models with the hook attached, healthy and with faults, decides by their
own skill on held-out data which are harmful, lets the rules watch them, and prints recall, time to
find, false alarms, and each miss. Thresholds are chosen on the families of one half; the other is
reported. ``--keep`` keeps the runs, and trains only those that are not there yet; ``--judge``
judges kept runs again without training.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.detection.chosen import chosen, listed
from benchmarks.detection.environment import enter

_HALVES = ("design", "report")

ENOUGH = 150
"""Healthy runs of the report half, and harmful ones, that a figure on the page needs."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=(*_HALVES, "both"), default="both")
    parser.add_argument("--only", metavar="TEXT", help="cases whose 'family/name' holds this text")
    parser.add_argument(
        "--cases", metavar="FILE", type=Path, help="cases named there, a 'family/name' a line"
    )
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the runs there")
    parser.add_argument("--judge", metavar="FOLDER", type=Path, help="judge runs that lie there")
    parser.add_argument("--seeds", type=int, help="of each case; default: two if healthy, else one")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--minutes", type=float, help="after so many no training is begun")
    parser.add_argument("--save-interval", type=int, help="instead of the hook's default")
    parser.add_argument("--write", action="store_true", help="into docs/detection.md")
    arguments = parser.parse_args()
    part = arguments.half == "design" or arguments.only or arguments.cases
    if arguments.write and part:
        parser.error("--write is for the report half, or for both")
    enter()
    with tempfile.TemporaryDirectory(prefix="tocsin-detection-") as folder:
        run(arguments, arguments.judge or arguments.keep or Path(folder))


def run(arguments: argparse.Namespace, folder: Path) -> None:
    # In the environment only: the one that this started in may lack what these need.
    from benchmarks.detection import families
    from benchmarks.detection.judge import Result, judge
    from benchmarks.detection.report import report, write
    from benchmarks.detection.runs import make, runs_of

    started = time.monotonic()
    halves = _HALVES if arguments.half == "both" else (arguments.half,)
    names = listed(arguments.cases, families.every())
    results: dict[str, Result] = {}
    trained = 0.0
    for half in halves:
        cases = chosen(families.cases(half), arguments.only, names)
        runs = runs_of(cases, folder, arguments.seeds)
        before = time.monotonic()
        if arguments.judge:
            runs = [run for run in runs if run.is_made]
        else:
            until = started + 60 * arguments.minutes if arguments.minutes else math.inf
            make(runs, arguments.jobs, arguments.save_interval, until)
            runs = [run for run in runs if run.is_made]
        trained += time.monotonic() - before
        results[half] = judge(cases, runs, arguments.jobs)
    text = report(results)
    print(text)
    evaluated = time.monotonic() - started - trained
    print(
        f"{sum(len(r.judged) for r in results.values())} runs trained in {trained:.0f} s, "
        f"judged in {evaluated:.0f} s, {arguments.jobs} processes, {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
    every = [e for r in results.values() for one in r.judged for e in one.evaluations.values()]
    if failed := sorted({rule for evaluation in every for rule in evaluation.failed}):
        sys.exit(f"rules that ended in an error: {', '.join(failed)}")
    if arguments.write:
        for truth in ("healthy", "harmful"):
            if (count := len(results["report"].of(truth))) < ENOUGH:
                sys.exit(f"{count} {truth} runs of the report half are too few to write: {ENOUGH}")
        write(text)


if __name__ == "__main__":
    main()
