"""One action to take, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tocsin.actions.ports import Effects, Lookups
from tocsin.causes import Finding, causes_first
from tocsin.events import RunSummary, StatusChange


class ActionOutcome(StrEnum):
    """The outcome of an action."""

    DONE = "done"
    ALREADY_STOPPED = "already_stopped"
    REFUSED = "refused"
    FAILED = "failed"
    DRY_RUN = "dry_run"


@dataclass(frozen=True)
class Result:
    """The outcome of an action.

    detail: one line for people that says what that means.
    retry_at: when a refused stop is decided again: the stop guard holds it back, or the job does
        not lead to the run yet.
    guarded: it is the stop guard that holds it back.
    """

    outcome: ActionOutcome
    detail: str
    retry_at: float | None = None
    guarded: bool = False


@dataclass(frozen=True)
class Request:
    """One action for what a run reports.

    action: ``metric:loss`` is the action ``metric`` with the argument ``loss``.
    firing, resolved: the alerts that it reports, the cause first.
    withdrawn: alerts that no longer stand, of rules that were not judged healthy.
    ongoing: alerts that still fire and were sent before.
    cause: the finding that explains the first alert, if the message does not report it itself.
    stop: the outcome of stopping the job, where that was asked for.
    stopped: whether the job was stopped, by this deployment.
    relaunch: the outcome of starting it again, where that was asked for.
    summary: at a run's end, and then there is no alert.
    key: the same for every try.
    """

    action: str
    firing: tuple[StatusChange, ...] = ()
    resolved: tuple[StatusChange, ...] = ()
    ongoing: tuple[StatusChange, ...] = ()
    stop: Result | None = None
    summary: RunSummary | None = None
    reason: str = ""
    key: str = ""
    withdrawn: tuple[StatusChange, ...] = ()
    cause: StatusChange | None = None
    stopped: bool = False
    relaunch: Result | None = None

    @property
    def about(self) -> tuple[StatusChange, ...]:
        """The alerts that the message is about first of all; empty for a summary."""
        return self.firing or self.resolved or self.withdrawn

    @property
    def alert(self) -> StatusChange:
        """The first alert. Raises LookupError for a summary."""
        return self.about[0]

    @property
    def explained(self) -> frozenset[str]:
        """The names of rules in ``firing`` that another one of them explains."""
        leads = causes_first(map(finding, self.firing))
        return frozenset(each.name for lead in leads for each in lead.explains)

    @property
    def job(self) -> str:
        return (self.summary or self.alert).training_job_name

    @property
    def run(self) -> str:
        return (self.summary or self.alert).run

    @property
    def dry_run(self) -> bool:
        """Return whether all that it reports is a dry run."""
        alerts = (*self.firing, *self.resolved, *self.withdrawn)
        reported = (self.summary,) if self.summary else alerts
        return bool(reported) and all(each.dry_run for each in reported)

    @property
    def name(self) -> str:
        return self.action.partition(":")[0]

    @property
    def argument(self) -> str | None:
        """The part after the colon; None without one."""
        _, colon, argument = self.action.partition(":")
        return argument if colon else None


def finding(alert: StatusChange) -> Finding:
    """Return the alert as the order of findings sees it."""
    name, tensor = alert.rule_configuration_name, alert.tensor
    return Finding(name, alert.rule, alert.severity, alert.step, tensor)


Action = Callable[[Request, Lookups, Effects], Result]
"""Takes one action. Refusals are results; an exception means: try again later."""
