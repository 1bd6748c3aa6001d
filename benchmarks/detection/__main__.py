"""How well the rules tell faulty trainings from healthy ones.

    python -m benchmarks.detection [--tuning] [--only healthy|FAULT] [--jobs 2] [--write]

Makes some hundred small trainings, healthy ones and ones with a fault, lets every rule watch them,
and prints recall, saves until detection and false alarms. Thresholds are chosen on one half
(--tuning, which names runs); the other, of which it shares no data set, no seed and no fault, is
reported. Runs and verdicts are kept in .cache/detection for as long as the code stays the same.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time

from benchmarks.detection.environment import enter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tuning", action="store_true", help="the half for choosing thresholds")
    parser.add_argument("--only", metavar="FAULT", help="'healthy', or the name of one fault")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true", help="into docs/detection.md")
    arguments = parser.parse_args()
    if arguments.write and (arguments.tuning or arguments.only):
        parser.error("--write is for all of the held-out half")
    enter()
    _run(arguments)


def _run(arguments: argparse.Namespace) -> None:
    # In the environment only: the one that this started in may lack what these need.
    from tocsin.rules import SAGEMAKER

    from benchmarks.detection.evaluate import EVERYTHING, PROFILES, evaluate
    from benchmarks.detection.report import details, report, write
    from benchmarks.detection.result import judge
    from benchmarks.detection.runs import make
    from benchmarks.detection.split import chosen

    started = time.perf_counter()
    try:
        setups = chosen("tuning" if arguments.tuning else "held out", arguments.only)
    except KeyError as error:
        sys.exit(f"no fault {error} in this half: see benchmarks/detection/faults.py")
    runs = make(setups, jobs=arguments.jobs)
    trained = time.perf_counter()
    ours = evaluate(runs, EVERYTHING, jobs=arguments.jobs)
    amazons = evaluate(runs, SAGEMAKER, jobs=arguments.jobs)
    result = judge(runs, PROFILES, ours, amazons)
    text = report(result)
    print(text)
    if arguments.tuning or arguments.only:
        print(details(result))
    seconds = trained - started, time.perf_counter() - trained
    print(
        f"{len(runs)} runs trained in {seconds[0]:.0f} s, evaluated in {seconds[1]:.0f} s, ", end=""
    )
    print(f"{arguments.jobs} processes, {platform.machine()}, Python {platform.python_version()}")
    if failed := sorted({rule for one in ours.values() for rule in one.failed}):
        print(f"rules that ended in an error: {', '.join(failed)}")
    if arguments.write:
        write(text)


if __name__ == "__main__":
    main()
