"""The e-mail at a job's end: the last status of every rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.actions.email_parts import columns, fitting, machine_at_that_time, see_more
from tocsin.actions.ports import Lookups
from tocsin.events import WORST_FIRST, RuleStatusEntry, RunSummary
from tocsin.model import RuleStatus
from tocsin.words import clean, cut

_SHOWN = 40
_ENDINGS = {"marker": "its end marker", "silence": "no new step for 24 hours"}
_BY_NAME = (RuleStatus.NO_ISSUES_FOUND, RuleStatus.NOT_APPLICABLE)  # one line, without details
_WORST_FIRST = [status for status in WORST_FIRST if status not in _BY_NAME]


def summary_email(summary: RunSummary, lookups: Lookups) -> str:
    """Return the statuses, the worst first; within the same bounds as an alert's e-mail."""
    job = clean(summary.training_job_name, 100)
    status = f": {summary.rule_evaluation_status}" if summary.rule_evaluation_status else ""
    facts = columns(
        [
            ("Job", clean(summary.training_job_name)),
            ("Run", clean(summary.run, 1100)),
            ("Ended by", _ENDINGS.get(summary.ending, clean(summary.ending, 100))),
            ("Steps", _steps(summary)),
            ("Not run", summary.not_run.text if summary.not_run else ""),
            ("Time", clean(summary.evaluated_at or "", 100)),
        ]
    )
    return fitting(
        [f"Training job {job} has ended{status}.", facts],
        _statuses(summary.debug_rule_evaluation_statuses),
        [machine_at_that_time(summary.run, lookups), see_more(summary.run, lookups)],
    )


def _steps(summary: RunSummary) -> str:
    steps = summary.steps
    reach = "" if steps.first is None else f", from {steps.first} to {steps.last}"
    return f"{steps.evaluated} evaluated{reach}"


def _statuses(statuses: Sequence[RuleStatusEntry]) -> Iterator[str]:
    for wanted in _WORST_FIRST:
        found = [each for each in statuses if each.rule_evaluation_status is wanted]
        lines = [_line(each) for each in found[:_SHOWN]]
        more = [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        yield "\n".join([f"{wanted}:", *lines, *more]) if found else ""
    for status in _BY_NAME:
        names = [
            clean(each.rule_configuration_name, 200)
            for each in statuses
            if each.rule_evaluation_status is status
        ]
        yield cut(f"{status}: {', '.join(names)}", 2000) if names else ""


def _line(status: RuleStatusEntry) -> str:
    details = clean(status.status_details, 200)
    return f"  {clean(status.rule_configuration_name, 200)}{': ' if details else ''}{details}"
