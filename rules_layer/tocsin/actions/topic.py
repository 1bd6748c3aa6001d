"""Notify people by e-mail or SMS, through the deployment's topic: all subscribers, or one."""

from __future__ import annotations

from tocsin.actions.alert_email import alert_email
from tocsin.actions.headline import severity, short, subject
from tocsin.actions.ports import Effects, Lookups, TopicMessage
from tocsin.actions.request import ActionOutcome, Request, Result
from tocsin.actions.summary_email import summary_email
from tocsin.words import clean


def email(request: Request, lookups: Lookups, effects: Effects) -> Result:
    """Publish to the topic; subscriptions filter on the attribute ``action``, as written."""
    if refused := _refusal(request, lookups, effects):
        return refused
    summary = request.summary
    body = summary_email(summary, lookups) if summary else alert_email(request, lookups)
    effects.publish(
        TopicMessage(
            texts={"default": body, "email": body, "sms": short(request)},
            attributes=attributes(request),
            subject=subject(request),
        )
    )
    return _published(request)


def sms(request: Request, lookups: Lookups, effects: Effects) -> Result:
    """Publish one short line, if the month's number of SMS is not used up.

    To the topic for all subscribers, or straight to the number that the action names.
    """
    if refused := _refusal(request, lookups, effects):
        return refused
    phones = 1 if request.argument is not None else lookups.broadcast.get("sms") or 1
    if why := effects.reserve("sms", request.run, phones):
        return Result(ActionOutcome.REFUSED, why)
    text = short(request)
    phone = request.argument or ""
    effects.publish(TopicMessage({"default": text, "sms": text}, attributes(request), phone=phone))
    if phone:
        return Result(ActionOutcome.DONE, f"sent to {phone}")
    return _published(request)


def attributes(request: Request) -> dict[str, str]:
    """Return the message attributes: what a subscription's filter policy can select."""
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


def _refusal(request: Request, lookups: Lookups, effects: Effects) -> Result | None:
    """Return the result if nothing can be sent to the action's recipient, else None.

    Recipients belong to the deployment: a run must not send at the account's cost.
    """
    to = request.argument
    if to is None:
        return None if lookups.reaches(request.name) else _nobody(request.name)
    why = lookups.refuses(request.name, to)
    if why is None and request.name == "email":
        why = effects.subscribe(request.run, request.name, to)
    return Result(ActionOutcome.REFUSED, why) if why else None


def _published(request: Request) -> Result:
    """The result after publishing: SNS does not say whom it reached."""
    if request.argument is not None:
        detail = f"published to the topic for {clean(request.argument, 320)}"
        return Result(ActionOutcome.DONE, detail)
    return Result(ActionOutcome.DONE, f"published to the topic for {request.name} subscribers")


def _nobody(kind: str) -> Result:
    option = "emails" if kind == "email" else "phones"
    return Result(
        ActionOutcome.REFUSED,
        f"nobody has confirmed a subscription of the deployment's topic for {kind}: add recipients "
        f"to the option {option}, and have them confirm the message from AWS",
    )
