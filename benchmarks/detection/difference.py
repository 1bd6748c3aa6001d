"""The same trainings by two versions of the hook or of the rules: what is found, run by run.

    python -m benchmarks.detection.difference BEFORE AFTER

Both are folders of kept runs; those that lie in both are judged by the rules of this checkout.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.detection.environment import enter

if TYPE_CHECKING:
    from benchmarks.detection.judge import Judged
    from benchmarks.detection.pairs import Pair


def difference(both: Sequence[Pair]) -> str:
    """Recall and false alarms of both, and each run on which they differ, as text."""
    clear = [pair for pair in both if pair.is_clear]
    lines = [f"{len(both)} runs in both, {len(clear)} of them decided alike"]
    for title, judged in (
        ("before", [pair.before for pair in clear]),
        ("after", [pair.after for pair in clear]),
    ):
        lines.append(f"{title}: {_counts(judged)}")
    if ratios := list(_saves(clear)):
        lines.append(f"saved steps, after ÷ before: median {statistics.median(ratios):.2f}")
    for pair in both:
        if not pair.is_clear and pair.before.truth != pair.after.truth:
            skills = f"skill {pair.before.skill} and {pair.after.skill}"
            lines.append(f"* {_name(pair)}: {pair.before.truth}, then {pair.after.truth}: {skills}")
    for pair in clear:
        if _said(pair.before) != _said(pair.after):
            said = f"{_said(pair.before)} → {_said(pair.after)}"
            lines.append(f"* {_change(pair)}: {_name(pair)}: {said}")
    return "\n".join(lines)


def _counts(judged: Sequence[Judged]) -> str:
    from benchmarks.detection.wilson import share

    harmful = [one for one in judged if one.truth == "harmful"]
    healthy = [one for one in judged if one.truth == "healthy"]
    found = [one for one in harmful if one.alarm()]
    alarmed = sum(one.alarm() is not None for one in healthy)
    return (
        f"found {share(len(found), len(harmful))}, "
        f"named {share(sum(one.named() for one in found), len(found))}, "
        f"healthy alarmed {share(alarmed, len(healthy))}"
    )


def _saves(both: Iterable[Pair]) -> Iterator[float]:
    for pair in both:
        counts = [len([*(one.run.tensors / "index").rglob("*.json")]) for one in pair.both]
        if all(counts):
            yield counts[1] / counts[0]


def _change(pair: Pair) -> str:
    before, after = pair.before.alarm() is not None, pair.after.alarm() is not None
    words = ("found", "lost") if pair.before.truth == "harmful" else ("alarmed", "quiet")
    return "otherwise" if before == after else words[before]


def _name(pair: Pair) -> str:
    return f"{pair.before.run.case} {pair.before.run.seed}"


def _said(one: Judged) -> str:
    return one.lead or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE", type=Path)
    parser.add_argument("after", metavar="AFTER", type=Path)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    enter("benchmarks.detection.difference")
    from benchmarks.detection.kept import kept  # in the environment only
    from benchmarks.detection.pairs import pairs

    one, other = (kept(folder, arguments.jobs) for folder in (arguments.before, arguments.after))
    print(difference(pairs(one, other)))


if __name__ == "__main__":
    main()
