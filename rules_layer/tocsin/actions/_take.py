"""Take one action: the one that its name says, in earnest or as a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.actions._email import email
from tocsin.actions._metric import metric
from tocsin.actions._ports import Ports
from tocsin.actions._request import Action, Outcome, Request, Result
from tocsin.actions._sms import sms
from tocsin.actions._stop import stop
from tocsin.actions._webhook import webhook
from tocsin.words import clean

ACTIONS: Mapping[str, Action] = {
    "stop": stop,
    "email": email,
    "sms": sms,
    "metric": metric,
    "webhook": webhook,
}


def take(request: Request, ports: Ports) -> Result:
    """What comes of the request. An exception means: nothing is known, try again later."""
    action = ACTIONS.get(request.name)
    if action is None:
        known = ", ".join(ACTIONS)
        return Result(
            Outcome.REFUSED, f"unknown action {clean(request.name, 80)!r}: there are {known}"
        )
    if not request.dry_run:
        return action(request, ports)
    planned = action(request, ports.rehearsal())
    return Result(
        Outcome.DRY_RUN,
        f"dry run, nothing was done; it would have been {planned.outcome}: {planned.detail}",
    )
