"""The result as tables in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.detection.evaluate import PROFILES
from benchmarks.detection.faults import FAULTS
from benchmarks.detection.result import Judged, Result, median_saves
from benchmarks.detection.wilson import share

PAGE = Path(__file__).resolve().parents[2] / "docs" / "detection.md"
BEGIN, END = "<!-- detection: begin -->", "<!-- detection: end -->"


def report(result: Result) -> str:
    """What goes into the documentation."""
    parts = [_overall(result), _faults(result), _asymptomatic(result), _false_alarms(result)]
    return "\n\n".join(parts) + "\n"


def details(result: Result) -> str:
    """For choosing thresholds: which runs are missed, and which ones alarm whom for nothing."""
    return "\n".join([*_missed(result), "", *_wrong(result), "", *_doubtful(result)]) + "\n"


def write(text: str, page: Path = PAGE) -> None:
    """Put the tables between the page's two marks. Raises ValueError if they are missing."""
    old = page.read_text("utf-8")
    if BEGIN not in old or END not in old:
        raise ValueError(f"{page}: has no line {BEGIN!r} and {END!r} to write between")
    before, rest = old.split(BEGIN, 1)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END, 1)[1]}", "utf-8")


def _overall(result: Result) -> str:
    healthy, sick = result.healthy, result.symptomatic
    rows = []
    for profile in PROFILES:
        wrong = sum(one.caught(profile) for one in healthy)
        alarms = sum(len(one.alarms[profile]) for one in healthy)
        rows.append(
            [
                profile,
                share(sum(one.caught(profile) for one in sick), len(sick)),
                share(sum(one.named(profile) for one in sick), len(sick)),
                median_saves(sick, profile),
                share(wrong, len(healthy)),
                f"{alarms / max(1, len(healthy)):.2f}",
            ]
        )
    head = ["profile", "faulty runs found", "by a rule that names it", "saves until then"]
    return _table([*head, "healthy runs alarmed", "alarms a healthy run"], rows)


def _faults(result: Result) -> str:
    rows = []
    for fault, runs in _by_fault(result.symptomatic):
        row = [fault, FAULTS[fault].symptom]
        for profile in PROFILES:
            row += [_of(runs, profile), median_saves(runs, profile)]
        row.insert(4, f"{sum(one.named(PROFILES[0]) for one in runs)}/{len(runs)}")
        rows.append(row)
    heads = [head for profile in PROFILES for head in (profile, "saves")]
    return _table(["fault", "symptom", *heads[:2], "named", *heads[2:]], rows)


def _asymptomatic(result: Result) -> str:
    rows = [
        [fault, *(_of(runs, profile) for profile in PROFILES)]
        for fault, runs in _by_fault(result.asymptomatic)
    ]
    return _table(["fault that does not show", *PROFILES], rows)


def _false_alarms(result: Result) -> str:
    healthy = result.healthy
    counts = {
        profile: Counter(alarm.rule for one in healthy for alarm in one.alarms[profile])
        for profile in PROFILES
    }
    rules = sorted({rule for found in counts.values() for rule in found})
    rows = [
        [rule, *(share(counts[profile][rule], len(healthy)) for profile in PROFILES)]
        for rule in rules
    ]
    return _table(["rule, on healthy runs", *PROFILES], rows)


def _missed(result: Result) -> Iterator[str]:
    yield "Missed by profile recommended, and by how much the metric is worse:"
    for one in result.symptomatic:
        if not one.caught(PROFILES[0]):
            others = ", ".join(sorted({alarm.rule for alarm in one.alarms["all"]})) or "no rule"
            yield f"  {one.run.setup.name}  −{one.worse:.2f}  (of all: {others})"


def _wrong(result: Result) -> Iterator[str]:
    yield "Alarms on healthy runs, of all rules (* in profile recommended):"
    alarms = [(alarm, one) for one in result.healthy for alarm in one.alarms["all"]]
    chosen = {alarm.rule for one in result.judged for alarm in one.alarms[PROFILES[0]]}
    for rule, found in groupby(sorted(alarms, key=lambda pair: pair[0].rule), lambda p: p[0].rule):
        pairs = list(found)
        yield f"  {rule}{'*' if rule in chosen else ''}: {len(pairs)}/{len(result.healthy)}"
        for alarm, one in pairs[:40]:
            yield f"    {one.run.setup.name}  step {alarm.step}: {alarm.detail}"


def _doubtful(result: Result) -> Iterator[str]:
    """An alarm on one of these may be right: there was a better model before the last one."""
    yield "Healthy runs whose evaluation loss ended a third above its best:"
    for one in result.healthy:
        losses = [loss for loss in one.run.outcome.evaluations if loss is not None]
        if losses and losses[-1] > 4 / 3 * min(losses):
            yield f"  {one.run.setup.name}  {min(losses):.3g} → {losses[-1]:.3g}"


def _by_fault(judged: Sequence[Judged]) -> Iterable[tuple[str, list[Judged]]]:
    for fault, runs in groupby(judged, lambda one: one.fault):
        yield fault, list(runs)


def _of(runs: Sequence[Judged], profile: str) -> str:
    return f"{sum(one.caught(profile) for one in runs)}/{len(runs)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
