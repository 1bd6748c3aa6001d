"""Tell people by SMS: everybody who subscribed a phone to the topic."""

from __future__ import annotations

from tocsin.actions import _text
from tocsin.actions._notice import attributes, no_recipient, published
from tocsin.actions._ports import Message, Ports
from tocsin.actions._request import Request, Result


def sms(request: Request, ports: Ports) -> Result:
    """Publishes one short line to the topic, with ``action=sms`` for subscriptions to filter on."""
    if request.argument is not None:
        return no_recipient("sms")
    text = _text.sms(request.alert, request.stop)
    ports.publish(Message({"default": text, "sms": text}, attributes(request)))
    return published(request, ports)
