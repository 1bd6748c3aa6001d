"""One action to take, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tocsin.actions._alert import Alert
from tocsin.actions._ports import Ports


class Outcome(StrEnum):
    """How an action ended."""

    DONE = "done"
    ALREADY_STOPPED = "already_stopped"
    REFUSED = "refused"
    FAILED = "failed"
    DRY_RUN = "dry_run"


@dataclass(frozen=True)
class Result:
    """How an action ended, and one line for people that says what that means."""

    outcome: Outcome
    detail: str


@dataclass(frozen=True)
class Request:
    """One action of one alert: ``metric:loss`` is the action ``metric`` with argument ``loss``.

    ``stop`` is what came of stopping the job, where this alert asks for that too.
    """

    alert: Alert
    action: str
    stop: Result | None = None

    @property
    def key(self) -> str:
        """What this action is remembered by: the same for every copy of the alert."""
        return f"{self.alert.dedup_id}/{self.action}"

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
