"""Tell people by e-mail: all whom the deployment subscribes, or one of them."""

from __future__ import annotations

from tocsin.actions import _text
from tocsin.actions._ending import ending
from tocsin.actions._headline import short, subject
from tocsin.actions._notice import attributes, published, refusal
from tocsin.actions._ports import Message, Ports
from tocsin.actions._request import Request, Result


def email(request: Request, ports: Ports) -> Result:
    """Publishes to the topic; subscriptions filter on the attribute ``action``, as written."""
    if refused := refusal(request, ports):
        return refused
    summary = request.summary
    text = ending(summary, ports) if summary else _text.email(request, ports)
    ports.publish(
        Message(
            texts={"default": text, "email": text, "sms": short(request)},
            attributes=attributes(request),
            subject=subject(request),
        )
    )
    return published(request, ports)
