"""Recipients that may be notified: only those that the deployment allows."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tocsin.parsing import email_fault, phone_fault
from tocsin.words import clean

_FAULTS: dict[str, Callable[[str], str | None]] = {"email": email_fault, "sms": phone_fault}


def refusal(kind: str, recipient: str, allowed: Collection[str]) -> str | None:
    """Return why nothing is sent to a recipient, in one line; None if it may be notified.

    ``kind`` is ``email`` or ``sms``; ``allowed`` holds addresses, ``*@example.com`` for all of a
    domain, and phone numbers. Letter case counts before the @ only.
    """
    if (fault := _fault(kind, recipient)) is not None:
        return fault
    if _folded(recipient) in map(_folded, allowed):
        return None
    whole = f"*@{recipient.rpartition('@')[2]}"
    if kind == "email" and _folded(whole) in map(_folded, allowed):
        return None
    add = f"it, or {whole}," if kind == "email" else "it"
    return (
        f"{recipient!r} is not on the deployment's list of recipients: "
        f"add {add} to the option allowedRecipients"
    )


def _fault(kind: str, recipient: str) -> str | None:
    if kind not in _FAULTS:
        return f"{clean(kind, 40)!r} takes no recipients: only email and sms do"
    return _FAULTS[kind](recipient)


def _folded(recipient: str) -> str:
    """The recipient as it is compared: letter case counts before the @ only."""
    mailbox, at, domain = recipient.rpartition("@")
    return f"{mailbox}{at}{domain.lower()}"


def recipients(
    allowed: Collection[str] | None = None, webhooks: Collection[str] | None = None
) -> Callable[[str, str], str | None]:
    """Return a function that gives the reason why a recipient cannot be notified, or None.

    ``allowed`` is as in ``refusal``, ``webhooks`` are the names of the deployment's webhooks. If
    one of them is None, only the form of a recipient is checked.
    """

    def refuses(kind: str, recipient: str) -> str | None:
        if kind != "webhook":
            if allowed is None:
                return _fault(kind, recipient)
            return refusal(kind, recipient, allowed)
        if webhooks is None or recipient in webhooks:
            return None
        return (
            f"the deployment has no webhook {clean(recipient, 80)!r}: add it to the option webhooks"
        )

    return refuses
