"""The form of an action: ``stop``, ``email:ml-oncall@example.com``, ``metric:loss`` …"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tocsin.parsing import email_fault, metric_name_fault, phone_fault, webhook_name_fault

NOTIFYING = ("email", "sms", "webhook")
"""The actions that send notifications."""

_ARGUMENTS: Mapping[str, Callable[[str], str | None]] = {
    "email": partial(email_fault, form_only=True),
    "sms": phone_fault,
    "metric": metric_name_fault,
    "webhook": webhook_name_fault,
}
ACTIONS = ("stop", "relaunch", *_ARGUMENTS)


def usable(actions: Iterable[str]) -> tuple[str, ...]:
    """Return the actions that are valid, each once. Faults of the others are reported with the
    file."""
    return tuple(action for action in dict.fromkeys(actions) if action_fault(action) is None)


def action_fault(action: str) -> str | None:
    """Return one line that says why an action is not valid; None for a valid one."""
    name, colon, argument = action.partition(":")
    if name not in ACTIONS:
        near = difflib.get_close_matches(name.lower(), ACTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ACTIONS)}"
        return f"unknown action {action!r}: {hint}"
    if name in ("stop", "relaunch"):
        return f"{action!r}: {name} takes no argument" if colon else None
    if not colon:
        return f"{action!r} must name its endpoint: webhook:NAME" if name == "webhook" else None
    fault = _ARGUMENTS[name](argument)
    return None if fault is None else f"{action!r}: {fault}"
