"""What e-mail and SMS have in common: how subscriptions select them, and whom they reach."""

from __future__ import annotations

from tocsin.actions._headline import severity
from tocsin.actions._ports import Ports
from tocsin.actions._request import Outcome, Request, Result
from tocsin.words import clean


def attributes(request: Request) -> dict[str, str]:
    """The message attributes: what a subscription's filter policy can select."""
    if request.summary:
        about = {"status": request.summary.rule_evaluation_status or ""}
    else:
        about = {
            "rule": clean(request.alert.rule_configuration_name, 256),
            "severity": severity(request),
            "status": request.alert.rule_evaluation_status,
        }
    wanted = {"action": request.action, "job": clean(request.job, 256), **about}
    return {name: str(text) for name, text in wanted.items() if text}


def refusal(request: Request, ports: Ports) -> Result | None:
    """Why nothing can be sent to the recipient that the action names, as the result; else None.

    Recipients belong to the deployment: a run must not send at the account's cost.
    """
    to = request.argument
    if to is None:
        return None
    why = ports.refuses(request.name, to) or ports.subscribe(request.name, to)
    return Result(Outcome.REFUSED, why) if why else None


def published(request: Request, ports: Ports) -> Result:
    """What to say after publishing: SNS does not tell whom it reached."""
    if request.argument is not None:
        return Result(Outcome.DONE, f"published to the topic for {clean(request.argument, 320)}")
    nobody = (
        "" if ports.broadcast.get(request.name) else "; this deployment subscribes nobody itself"
    )
    return Result(Outcome.DONE, f"published to the topic for {request.name} subscribers{nobody}")
