"""The page as text and tables, for a browser without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tocsin.model import RuleStatus
from tocsin.report.machine_parts import Machine
from tocsin.report.page import Other, Page
from tocsin.report.parts import RuleCard

_FOLDED = {
    RuleStatus.NO_ISSUES_FOUND: "No issues found",
    RuleStatus.IN_PROGRESS: "No issues so far",
    RuleStatus.NOT_APPLICABLE: "Not applicable to this run",
}


def text_of(page: Page) -> str:
    """Return the page as HTML without scripts, in the order of the page that scripts draw."""
    verdict, fired = page.verdict, _fired(page.rules)
    parts = [
        f"<p>{escape(page.run.job)}",
        f"<h1>{escape(verdict.sentence)}</h1>",
        *(_paragraph(text) for text in (verdict.detail, *page.missing)),
        *map(_finding, fired),
        "<p>The charts need JavaScript.",
        *(_compared(page.others) if page.others else ()),
        *(_machine(page.machine) if page.machine else ()),
        *_rules(page.rules),
    ]
    return "".join(f"{part}\n" for part in parts if part)


def _fired(rules: Sequence[RuleCard]) -> list[RuleCard]:
    return [rule for rule in rules if rule.status == RuleStatus.ISSUES_FOUND]


def _paragraph(text: str, title: str = "") -> str:
    return f"<p>{title and f'<b>{title}</b> '}{escape(text)}" if text else ""


def _finding(rule: RuleCard) -> str:
    """Return the finding, causes and advice of a rule."""
    parts = (
        f"<h2>{escape(rule.name)}</h2>",
        _paragraph(rule.details),
        _paragraph(rule.causes, "Why it happens."),
        _paragraph(rule.advice, "What to do."),
    )
    return "\n".join(part for part in parts if part)


def _compared(others: Sequence[Other]) -> Iterator[str]:
    yield "<h2>Compared with</h2>"
    for other in others:
        yield _paragraph(other.verdict.sentence, escape(f"{other.run.job}:"))


def _machine(machine: Machine) -> Iterator[str]:
    """Yield the findings and statistics of the machines."""
    yield f"<h2>The machine</h2>\n<p>{escape(machine.sentence)}"
    yield from map(_finding, _fired(machine.rules))
    rows = (
        (each.name, each.unit, *map(_number, (each.p50, each.p95, each.p99)))
        for each in machine.statistics
    )
    yield _table(("metric", "unit", "p50", "p95", "p99"), rows)


def _rules(rules: Sequence[RuleCard]) -> Iterator[str]:
    """Yield tables of the rules: clean and not applicable ones folded."""
    yield "<h2>All rules</h2>"
    yield _statuses([rule for rule in rules if rule.status not in _FOLDED])
    for status, what in _FOLDED.items():
        chosen = [rule for rule in rules if rule.status == status]
        if chosen:
            title = f"{what} ({len(chosen)})"
            yield f"<details><summary>{title}</summary>{_statuses(chosen)}</details>"


def _statuses(rules: Sequence[RuleCard]) -> str:
    rows = ((rule.name, rule.status, rule.details) for rule in rules)
    return _table(("rule", "status", "details"), rows) if rules else ""


def _table(headings: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{text}" for text in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}" for text in row) for row in rows)
    return f"<table><thead><tr>{head}<tbody>{body}</table>"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
