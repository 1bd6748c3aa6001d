"""Print what each rule, contract and mechanism of the hook found, from kept runs.

    python -m benchmarks.detection.attribution FOLDER [WITHOUT …] [--write]

Trains nothing. FOLDER has the runs that ``--keep`` kept; each further one has the same trainings
with a mechanism switched off (mechanisms.py says how).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.detection.environment import enter

if TYPE_CHECKING:
    from benchmarks.detection.found import Seen
    from benchmarks.detection.judge import Judged
    from benchmarks.detection.rows import Row

BEGIN, END = "<!-- attribution: begin -->", "<!-- attribution: end -->"

_COLUMNS = ("found", "first", "alone", "named", "false alarms", "false alarms alone")
_OF_MECHANISMS = ("mechanism", "runs", "found with it alone", "found without it alone")
_ALARMED = ("healthy alarmed with it alone", "healthy alarmed without it alone")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="kept runs")
    parser.add_argument("without", metavar="WITHOUT", type=Path, nargs="*", help="beside them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true", help="write it to docs")
    arguments = parser.parse_args()
    enter("benchmarks.detection.attribution")
    from benchmarks.detection.report import TABLES, write

    text = attribution(arguments)
    print(text)
    if arguments.write:
        write(text, TABLES, begin=BEGIN, end=END)


def attribution(arguments: argparse.Namespace) -> str:
    """The tables of the page's section, in Markdown."""
    # In the environment only: the one that this started in may lack what these need.
    from tocsin.contracts import CONTRACTS
    from tocsin.rules import RECOMMENDED, rule_names

    from benchmarks.detection.found import seen
    from benchmarks.detection.kept import kept
    from benchmarks.detection.pairs import pairs
    from benchmarks.detection.report import table
    from benchmarks.detection.rows import contract_rows, mechanism_row, rule_rows

    base = kept(arguments.folder, arguments.jobs)
    runs = seen(base, arguments.jobs)
    rules = rule_rows(runs, rule_names(RECOMMENDED, about="training"))
    contracts = contract_rows(runs, CONTRACTS)
    text = [
        which(runs),
        table(["rule", *_COLUMNS], [_cells(row) for row in rules if row.is_filled]),
        table(["contract", *_COLUMNS], [_cells(row) for row in contracts if row.is_filled]),
        _silent("rules", rules),
        _silent("contracts", contracts),
    ]
    if arguments.without:
        others = [kept(folder, arguments.jobs) for folder in arguments.without]
        found = [mechanism_row(_without(other), pairs(base, other)) for other in others]
        text.append(table([*_OF_MECHANISMS, *_ALARMED], [[*map(str, row)] for row in found]))
    return "\n\n".join(text) + "\n"


def which(runs: Sequence[Seen]) -> str:
    """Return how many runs the tables are of."""
    harmful = sum(one.judged.truth == "harmful" for one in runs)
    found = sum(one.judged.truth == "harmful" and bool(one.rules) for one in runs)
    alarmed = sum(one.judged.truth == "healthy" and bool(one.rules) for one in runs)
    groups = {one.judged.case.group for one in runs}
    return (
        f"{len(runs)} runs of {len(groups)} trainings: {found} of {harmful} harmful ones found, "
        f"{alarmed} of {len(runs) - harmful} healthy ones alarmed."
    )


def _silent(title: str, rows: Sequence[Row]) -> str:
    names = ", ".join(sorted(row.name for row in rows if not row.is_filled))
    return f"{title.capitalize()} that fired on none of these runs: {names or 'none'}."


def _without(judged: Sequence[Judged]) -> str:
    """The mechanism that was switched off where these were trained."""
    return ", ".join(sorted({one.run.ending.without for one in judged}))


def _cells(row: Row) -> list[str]:
    counts = (row.found, row.first, row.alone, row.named, row.alarmed, row.alarmed_alone)
    return [row.name, *(str(count or "·") for count in counts)]


if __name__ == "__main__":
    main()
