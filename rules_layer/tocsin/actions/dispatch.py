"""Take the action of a request, or in a dry run only describe it."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.actions.metric import metric
from tocsin.actions.ports import NO_EFFECTS, CapReached, Effects, Lookups
from tocsin.actions.relaunch import relaunch
from tocsin.actions.request import Action, ActionOutcome, Request, Result
from tocsin.actions.stop import stop
from tocsin.actions.topic import email, sms
from tocsin.actions.webhook import webhook
from tocsin.words import clean

ACTIONS: Mapping[str, Action] = {
    "stop": stop,
    "relaunch": relaunch,
    "email": email,
    "sms": sms,
    "metric": metric,
    "webhook": webhook,
}


def take(request: Request, lookups: Lookups, effects: Effects) -> Result:
    """Return the outcome of the request. After an exception, retry later."""
    action = ACTIONS.get(request.name)
    if action is None:
        known = ", ".join(ACTIONS)
        return Result(
            ActionOutcome.REFUSED, f"unknown action {clean(request.name, 80)!r}: there are {known}"
        )
    if not request.dry_run:
        try:
            return action(request, lookups, effects)
        except CapReached as error:
            return Result(ActionOutcome.REFUSED, str(error))
    planned = action(request, lookups, NO_EFFECTS)
    return Result(
        ActionOutcome.DRY_RUN,
        f"dry run, nothing was done; it would have been {planned.outcome}: {planned.detail}",
    )
