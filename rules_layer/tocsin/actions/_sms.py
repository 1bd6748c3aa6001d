"""Tell people by SMS: all whose phones the deployment subscribes, or one of them."""

from __future__ import annotations

from tocsin.actions._headline import short
from tocsin.actions._notice import attributes, published, refusal
from tocsin.actions._ports import Message, Ports
from tocsin.actions._request import Outcome, Request, Result


def sms(request: Request, ports: Ports) -> Result:
    """Publishes one short line to the topic, if the month's number of SMS is not used up."""
    if refused := refusal(request, ports):
        return refused
    phones = 1 if request.argument is not None else ports.broadcast.get("sms") or 1
    if why := ports.may_text(phones):
        return Result(Outcome.REFUSED, why)
    text = short(request)
    ports.publish(Message({"default": text, "sms": text}, attributes(request)))
    return published(request, ports)
