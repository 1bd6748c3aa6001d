"""How an action may be written: ``stop``, ``email:ml-oncall@example.com``, ``metric:loss`` …"""

from __future__ import annotations

import difflib
import re

_EMAIL = re.compile(r"[^@\s,;<>*]+@[^@\s,;<>*]+\.[^@\s,;<>*.]+")
_PHONE = re.compile(r"\+[1-9]\d{6,14}")
_METRIC = re.compile(r"[!-9;-~][ -~]{0,254}")  # what CloudWatch takes
_WEBHOOK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_ARGUMENTS = {
    "email": (_EMAIL, "an address like ml-oncall@example.com"),
    "sms": (_PHONE, "a phone number like +15551230000"),
    "metric": (_METRIC, "a metric name of 1 to 255 printable ASCII characters, no colon first"),
    "webhook": (_WEBHOOK, "the name that the deployment gives an endpoint"),
}
ACTIONS = ("stop", *_ARGUMENTS)


def action_fault(action: str) -> str | None:
    """What is wrong with an action as it is written; None if nothing is."""
    name, colon, argument = action.partition(":")
    if name not in ACTIONS:
        near = difflib.get_close_matches(name.lower(), ACTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ACTIONS)}"
        return f"unknown action {action!r}: {hint}"
    if name == "stop":
        return f"{action!r}: stop takes no argument" if colon else None
    if not colon:
        return f"{action!r} must name its endpoint: webhook:NAME" if name == "webhook" else None
    pattern, what = _ARGUMENTS[name]
    return None if pattern.fullmatch(argument) else f"{action!r}: {argument!r} is not {what}"
