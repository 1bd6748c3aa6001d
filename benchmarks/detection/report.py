"""The result as text: tables in Markdown, misses and false alarms with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from tocsin.rules import RECOMMENDED

from benchmarks.detection.judge import Judged, Result, median_share
from benchmarks.detection.wilson import share

PAGE = Path(__file__).resolve().parents[2] / "docs" / "detection.md"
TABLES = PAGE.with_name("detection-tables.md")
BEGIN, END = "<!-- detection: begin -->", "<!-- detection: end -->"


def overall(results: Mapping[str, Result], profiles: Sequence[str] = (RECOMMENDED,)) -> str:
    """Return the table with a row for each part of the benchmark."""
    head = ["benchmark part", "profile", "harmful runs found", "named by the leading finding"]
    head += ["found at (median, % of the run's steps)", "healthy runs with a false alarm"]
    head += ["undecided"]
    rows = [
        _counts(name, profile, result) for name, result in results.items() for profile in profiles
    ]
    return table(head, rows) + "\n"


def breakdown(results: Mapping[str, Result]) -> str:
    """Return the tables by kind of mistake and by loop."""
    every = Result([one for result in results.values() for one in result.judged])
    return f"{_by('mistake in', every, 'kind')}\n\n{_by('loop', every, 'loop')}\n"


def lists(results: Mapping[str, Result]) -> str:
    """Return each miss, false alarm and undecided run, with its reason."""
    found = {name: [*_lists(result)] for name, result in results.items()}
    parts = ("\n\n".join([f"### {name}", *each]) for name, each in found.items() if each)
    return "\n\n".join(parts) + "\n"


def write(text: str, page: Path = PAGE, begin: str = BEGIN, end: str = END) -> None:
    """Put the tables between two marks of the page. Raises ValueError if they are missing."""
    old = page.read_text("utf-8")
    if begin not in old or end not in old:
        raise ValueError(f"{page}: has no line {begin!r} and {end!r} to write between")
    before, rest = old.split(begin, 1)
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{rest.split(end, 1)[1]}", "utf-8")


def _counts(name: str, profile: str, result: Result) -> list[str]:
    harmful, healthy = result.of("harmful"), result.of("healthy")
    found = [one for one in harmful if one.alarm(profile)]
    return [
        name.replace("_", " "),
        profile,
        share(len(found), len(harmful)),
        share(sum(one.named(profile) for one in found), len(found)),
        median_share(found, profile),
        share(sum(one.alarm(profile) is not None for one in healthy), len(healthy)),
        str(len(result.of("undecided"))),
    ]


def _by(title: str, result: Result, attribute: str) -> str:
    rows = []
    for name, part in result.by(attrgetter(attribute)).items():
        harmful, healthy = part.of("harmful"), part.of("healthy")
        found = [one for one in harmful if one.alarm()]
        rows.append([
            name,
            f"{len(found)}/{len(harmful)}",
            f"{sum(one.named() for one in found)}/{len(found)}",
            median_share(found),
            f"{sum(one.alarm() is not None for one in healthy)}/{len(healthy)}",
        ])  # fmt: skip
    return table([title, "found", "named", "found at (% of steps)", "false alarms"], rows)


def _lists(result: Result) -> Iterator[str]:
    harmful = result.of("harmful")
    for title, judged, line in (
        ("Missed", [one for one in harmful if not one.alarm()], _missed),
        ("Healthy runs alarmed", [one for one in result.of("healthy") if one.alarm()], _alarmed),
        (
            "Found by another name",
            [one for one in harmful if one.alarm() and not one.named()],
            _alarmed,
        ),
        ("Undecided, and not judged", result.of("undecided"), _skill),
    ):
        lines = Counter(line(one) for one in judged)
        if lines:
            yield f"**{title}** ({len(judged)})"
            yield "\n".join(f"* {text}" + f" ({n} seeds)" * (n > 1) for text, n in lines.items())


def _name(one: Judged) -> str:
    return f"{one.case.group}: {one.case.name}"


def _skill(one: Judged) -> str:
    skill = "not finite" if one.skill is None else f"{one.skill:.2f}"
    return f"{_name(one)}: skill {skill}, the reference has {one.reference:.2f}"


def _missed(one: Judged) -> str:
    """With what fired and does not count, which often is the reason."""
    quiet = {
        f"{alarm.rule} ({'resolved' if alarm.resolved else alarm.severity})"
        for alarm in one.evaluations[RECOMMENDED].alarms
    }
    return f"{_skill(one)}; beside it: {', '.join(sorted(quiet)) or 'no rule'}"


def _alarmed(one: Judged) -> str:
    alarm = one.evaluations[RECOMMENDED].lead or one.alarm()
    assert alarm is not None
    return f"{_name(one)}: {alarm.name} at {100 * alarm.share:.0f} %: {alarm.detail}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
