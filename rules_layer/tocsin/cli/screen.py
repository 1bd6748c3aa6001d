"""Draws a run for ``tocsin watch``: the verdict, the loss, the rules and the alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tocsin.cli.blocks import chart
from tocsin.cli.display import styled
from tocsin.cli.findings import findings, summary, without_finding
from tocsin.cli.not_judged import names_not_judged
from tocsin.cli.output import Document
from tocsin.cli.run_view import RunView
from tocsin.cli.verdicts import STYLES, status_text
from tocsin.evaluation import state_of
from tocsin.events import StatusChange
from tocsin.model import RuleStatus
from tocsin.report.parts import Curve
from tocsin.tensors import step_text

ICONS = {
    RuleStatus.ISSUES_FOUND: "▲",
    RuleStatus.ERROR: "✕",
    RuleStatus.STOPPED: "■",
    RuleStatus.IN_PROGRESS: "●",
    RuleStatus.NO_ISSUES_FOUND: "✓",
    RuleStatus.NOT_APPLICABLE: "–",
}
"""A status is never shown by its colour alone."""

_CHIPS = {
    "critical": (" ▲ CRITICAL ", "bold white on red"),
    "warning": (" ▲ WARNING ", "bold black on yellow"),
    "ok": (" ✓ NO ISSUES ", "bold white on green"),
    "none": (" – NOT JUDGED ", "bold white on bright_black"),
}
_AXIS = 10  # columns for the numbers beside the chart
_CHART = (3, 8)  # its least and greatest height
_ALERTS = 4
_SENTENCE = 3  # lines of the verdict


def screen(view: RunView, width: int, height: int, *, footer: str = "") -> RenderableType:
    """Return all of the view that fits into so many columns and lines."""
    parts: list[Text | Table] = [*_head(view, width)]
    tall = max(_CHART[0], min(_CHART[1], height // 4))
    if view.losses:
        parts += [Text(""), *_loss(view.losses[0], width, tall)]
    alerts = list(_alerts(view.changes))
    used = len(parts) + len(alerts) + (2 if alerts else 0) + (2 if footer else 0) + 3
    parts += [Text(""), _rules(view.document, max(1, height - used))]
    parts.append(styled(summary(view.document), "dim"))
    if alerts:
        parts += [Text(""), *alerts]
    if footer:
        parts += [Text(""), Text(footer, "dim")]
    for part in parts:
        if isinstance(part, Text):
            part.truncate(width, overflow="ellipsis")
    return Group(*parts)


def change_line(change: StatusChange) -> Text:
    """``step 60  ▲ LossSpike fired: the loss jumped``."""
    status = change.rule_evaluation_status
    fired = "" if change.firing else f" {status.value}"
    where = "" if change.step is None else f"{step_text(change.run, change.step)}  "
    return Text.assemble(
        (where, "dim"),
        (f"{ICONS[status]} ", STYLES[status]),
        styled(change.rule_configuration_name, "bold"),
        styled(f"{fired}: {change.status_details}" if change.status_details else fired),
    )


def news(changes: Sequence[StatusChange]) -> Iterator[StatusChange]:
    """Yield the changes to report: a rule fires, fails or resolves."""
    for change in changes:
        was_firing = change.previous_status is RuleStatus.ISSUES_FOUND
        if change.firing or was_firing or change.rule_evaluation_status is RuleStatus.ERROR:
            yield change


def facts(view: RunView) -> str:
    """``step 400 · 6.4 steps/s · last step 2 s ago``."""
    steps = view.document["steps"]
    if steps["last"] is None:
        return "no step yet"
    parts = [step_text(view.document["run"], steps["last"]), f"{steps['evaluated']} judged"]
    if view.rate is not None:
        parts.append(f"{view.rate:.3g} steps/s")
    if view.document["finished"]:
        parts.append(state_of(view.document))
    elif view.idle is not None:
        parts.append(f"last step {ago(view.idle)} ago")
    return " · ".join(parts)


def last_step(document: Document) -> str:
    """Return the number of the last step, or the time of a machine's last minute; empty without
    one."""
    last = document["steps"]["last"]
    return "" if last is None else step_text(document["run"], last).removeprefix("step ")


def _head(view: RunView, width: int) -> Iterator[Text]:
    chip = _CHIPS[view.headline.level]
    yield Text.assemble(chip, "  ", styled(view.document["job"], "bold"), "  ", facts(view))
    for line in wrap(view.headline.sentence, width)[:_SENTENCE]:
        yield styled(line)
    if view.headline.detail:
        yield styled(view.headline.detail, "dim")


def _loss(curve: Curve, width: int, height: int) -> Iterator[Text]:
    wide = max(10, width - _AXIS - 2)
    drawn = chart(curve.y, wide, height)
    last = "not finite" if curve.y[-1] is None else f"{curve.y[-1]:.4g}"
    scale = ", log scale" if drawn.log else ""
    yield styled(f"{curve.name}, {curve.mode.lower()}{scale}: last {last}", "dim")
    labels = [""] * len(drawn.lines)
    if drawn.low is not None and drawn.high is not None:
        labels[0], labels[-1] = f"{drawn.high:.3g}", f"{drawn.low:.3g}"
    for label, line in zip(labels, drawn.lines, strict=True):
        yield Text.assemble((f"{label:>{_AXIS}} ", "dim"), line)
    first, end = str(curve.x[0]), str(curve.x[-1])
    columns = min(wide, len(curve.x))
    yield Text(f"{'':{_AXIS}} {first}{end:>{max(1, columns - len(first))}}", "dim")


def _rules(document: Document, rows: int) -> Table:
    """As many rules as fit, findings first. Long details end in an ellipsis: rows do not jump."""
    grid = Table.grid(padding=(0, 2), expand=True)
    for ratio in (None, None, None, 1):
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=ratio)
    absent = names_not_judged(document)
    found = [rule for finding in findings(document) for rule in (finding.rule, *finding.explains)]
    rest = [
        rule for rule in without_finding(document) if rule["RuleConfigurationName"] not in absent
    ]
    for rule in (*found, *rest)[:rows]:
        status = RuleStatus(rule["RuleEvaluationStatus"])
        first = rule["FirstViolation"]
        grid.add_row(
            Text.assemble((f"{ICONS[status]} ", STYLES[status]), status_text(status)),
            styled(rule["RuleConfigurationName"], "bold" if rule in found else ""),
            styled(
                ""
                if first is None or rule not in found
                else step_text(document["run"], first["step"])
            ),
            styled(rule["StatusDetails"], "" if rule in found else "dim"),
        )
    return grid


def _alerts(changes: Sequence[StatusChange]) -> Iterator[Text]:
    for change in list(news(changes))[-_ALERTS:]:
        yield change_line(change)


def ago(seconds: float) -> str:
    """Return a span of time in one number: ``4 s``, ``12 min``, ``3 h``."""
    if seconds < 120:
        return f"{max(0, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{round(seconds / 3600)} h"
