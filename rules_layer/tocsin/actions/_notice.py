"""What e-mail and SMS have in common: how subscriptions select them, and whom they may reach."""

from __future__ import annotations

from tocsin.actions._ports import Ports
from tocsin.actions._request import Outcome, Request, Result
from tocsin.words import clean


def attributes(request: Request) -> dict[str, str]:
    """The message attributes: what a subscription's filter policy can select."""
    alert = request.alert
    wanted = {
        "action": request.name,
        "job": clean(alert.training_job_name, 256),
        "rule": clean(alert.rule_configuration_name, 256),
        "severity": alert.severity.value,
        "status": alert.rule_evaluation_status.value,
    }
    return {name: text for name, text in wanted.items() if text}


def published(request: Request, ports: Ports) -> Result:
    """What to say after publishing: SNS does not tell whom it reached."""
    nobody = (
        "" if request.name in ports.subscribed else "; this deployment subscribes nobody itself"
    )
    return Result(Outcome.DONE, f"published to the topic for {request.name} subscribers{nobody}")


def no_recipient(name: str) -> Result:
    """Recipients belong to the deployment: a run must not send at the account's cost."""
    return Result(
        Outcome.REFUSED,
        f"a rule has no recipients of its own: write just {name!r}, which reaches everybody who is "
        "subscribed to the deployment's topic",
    )
