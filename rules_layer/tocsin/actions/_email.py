"""Tell people by e-mail: everybody who subscribed to the topic."""

from __future__ import annotations

import inspect

from tocsin.actions import _text
from tocsin.actions._notice import attributes, no_recipient, published
from tocsin.actions._ports import Message, Ports
from tocsin.actions._request import Request, Result


def email(request: Request, ports: Ports) -> Result:
    """Publishes the alert to the topic, with ``action=email`` for subscriptions to filter on."""
    if request.argument is not None:
        return no_recipient("email")
    alert = request.alert
    text = _text.email(alert, request.stop, _about(alert.rule))
    ports.publish(
        Message(
            texts={"default": text, "email": text, "sms": _text.sms(alert, request.stop)},
            attributes=attributes(request),
            subject=_text.subject(alert, request.stop),
        )
    )
    return published(request, ports)


def _about(rule: str) -> _text.About:
    """What the rule says of itself; nothing if it cannot be found: the e-mail goes out anyway."""
    try:
        from tocsin.rules import find_rule

        found = find_rule(rule)
    except Exception:  # noqa: BLE001 - rules written by others are imported here
        return _text.About()
    if found is None:
        return _text.About()
    meaning = (inspect.getdoc(found) or "").partition("\n")[0]
    return _text.About(meaning, found.advice)
