"""One action to take, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tocsin.actions._ports import Ports
from tocsin.events import RunSummary, StatusChange


class Outcome(StrEnum):
    """How an action ended."""

    DONE = "done"
    ALREADY_STOPPED = "already_stopped"
    REFUSED = "refused"
    FAILED = "failed"
    DRY_RUN = "dry_run"


@dataclass(frozen=True)
class Result:
    """How an action ended, and one line for people that says what that means.

    ``guarded``: it was the stop guard that refused.
    """

    outcome: Outcome
    detail: str
    guarded: bool = False


@dataclass(frozen=True)
class Request:
    """One action for what a run reports: ``metric:loss`` is ``metric`` with argument ``loss``.

    ``firing`` and ``resolved`` are what it is about, the worst first; ``ongoing`` fires still and
    has been told before. ``stop`` is what came of stopping the job, where that was asked for. At a
    run's end there is a ``summary`` and no alert. ``key`` is the same for every try.
    """

    action: str
    firing: tuple[StatusChange, ...] = ()
    resolved: tuple[StatusChange, ...] = ()
    ongoing: tuple[StatusChange, ...] = ()
    stop: Result | None = None
    summary: RunSummary | None = None
    reason: str = ""
    key: str = ""

    @property
    def alert(self) -> StatusChange:
        """The one that leads. LookupError for a summary."""
        return (*self.firing, *self.resolved)[0]

    @property
    def job(self) -> str:
        return (self.summary or self.alert).training_job_name

    @property
    def run(self) -> str:
        return (self.summary or self.alert).run

    @property
    def dry_run(self) -> bool:
        """Whether all that it is about only rehearses."""
        about = (self.summary,) if self.summary else (*self.firing, *self.resolved)
        return bool(about) and all(each.dry_run for each in about)

    @property
    def name(self) -> str:
        return self.action.partition(":")[0]

    @property
    def argument(self) -> str | None:
        """What follows the colon; None without one."""
        _, colon, argument = self.action.partition(":")
        return argument if colon else None


Action = Callable[[Request, Ports], Result]
"""Takes one action. Refusals are results; an exception means: try again later."""
