"""Measures what a run that is known to be good adds to the rules: ``WorseThanBaseline``.

    python -m benchmarks.detection.baseline FOLDER [--write]

Each kept run in FOLDER is compared with the plain training of its group and seed 0. Prints the
harmful runs that only this comparison finds, and the healthy ones that it alarms: sound variants,
which differ from the plain training on purpose, and the plain training with other seeds, if FOLDER
has some.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.detection.environment import enter

if TYPE_CHECKING:
    from benchmarks.detection.evaluate import Alarm
    from benchmarks.detection.judge import Judged
    from benchmarks.detection.runs import Run

BEGIN, END = "<!-- baseline: begin -->", "<!-- baseline: end -->"


@dataclass(frozen=True)
class Beside:
    """A run, what the profile said of it, and what the comparison with the plain training did."""

    judged: Judged
    compared: Alarm | None

    @property
    def only_here(self) -> bool:
        return self.compared is not None and self.judged.alarm() is None


def compare(pair: tuple[Run, Run]) -> tuple[Run, Alarm | None]:
    """Return what the rule says of a run beside its baseline, if that is an alarm."""
    from tocsin.evaluation import check
    from tocsin.tensors import open_storage
    from tocsin.watch import Watch

    from benchmarks.detection.evaluate import alarms

    run, good = pair
    steps: list[int] = [1]
    watch = Watch(rules=(), baseline=str(good.tensors))
    checkpoint, _ = check(open_storage(run.tensors), watch, on_step=steps.append)
    found = (alarm for record in checkpoint.rules.values() for alarm in alarms(record, max(steps)))
    return run, next((alarm for alarm in found if alarm.counts), None)


def pairs(judged: Iterable[Judged]) -> Iterator[tuple[Run, Run]]:
    """Yield each run beside its baseline, the reference of its group with seed 0."""
    every = [one for one in judged if one.truth != "undecided" and one.run.tensors.is_dir()]
    good = {
        (one.case.group, one.case.name): one.run
        for one in every
        if one.case.is_reference and one.run.seed == 0
    }
    for one in every:
        base = good.get((one.case.group, one.case.reference))
        if base is not None and base != one.run:
            yield one.run, base


def text(beside: Sequence[Beside]) -> str:
    """Return the figures, and each run that the comparison alone finds or alarms."""
    from benchmarks.detection.report import table
    from benchmarks.detection.wilson import share

    harmful = [each for each in beside if each.judged.truth == "harmful"]
    healthy = [each for each in beside if each.judged.truth == "healthy"]
    twins = [each for each in healthy if each.judged.case.is_reference]
    sound = [each for each in healthy if not each.judged.case.is_reference]
    rows = []
    for what, of in (
        ("harmful", harmful),
        ("healthy, the plain training with another seed", twins),
        ("healthy, a sound variant", sound),
    ):
        by_rules = sum(each.judged.alarm() is not None for each in of)
        compared = sum(each.compared is not None for each in of)
        only = sum(each.only_here for each in of)
        counts = (by_rules, compared, only, by_rules + only)
        rows.append([what, str(len(of)), *(share(count, len(of)) for count in counts)])
    columns = ["runs", "count", "alarm by the profile", "alarm by WorseThanBaseline"]
    columns += ["by WorseThanBaseline only", "by either"]
    lines = [table(columns, rows)]
    for what, of in (("Found by the baseline alone", harmful), ("Healthy, alarmed", healthy)):
        named = [
            f"* {each.judged.run.case} {each.judged.run.seed}: {each.compared.detail}"
            for each in of
            if each.only_here and each.compared is not None
        ]
        lines += [f"{what} ({len(named)}):", "\n".join(named)]
    return "\n\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="kept runs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true", help="write it to docs")
    arguments = parser.parse_args()
    enter("benchmarks.detection.baseline")
    from benchmarks.detection.kept import kept
    from benchmarks.detection.progress import work
    from benchmarks.detection.report import TABLES, write

    judged = kept(arguments.folder, arguments.jobs)
    compared = dict(work("baseline", compare, list(pairs(judged)), arguments.jobs))
    found = text([Beside(one, compared[one.run]) for one in judged if one.run in compared])
    print(found)
    if arguments.write:
        write(found.partition("\n\n")[0] + "\n", TABLES, begin=BEGIN, end=END)


if __name__ == "__main__":
    main()
