"""Who may be told: the form of an address, and the deployment's list of who is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from tocsin.words import clean

_PHONE = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164
_LONGEST = 320  # of a local part and a domain; anything longer is not worth a look


def refusal(kind: str, recipient: str, allowed: Collection[str]) -> str | None:
    """Why nothing is sent to a recipient, in one line; None when it is.

    ``kind`` is ``email`` or ``sms``; ``allowed`` holds addresses, ``*@example.com`` for all of a
    domain, and phone numbers. Letter case counts before the @ only.
    """
    if (wrong := malformed(kind, recipient)) is not None:
        return wrong
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


def malformed(kind: str, recipient: str) -> str | None:
    """Why there cannot be such a recipient; None when there can. Nobody is asked."""
    if kind == "email":
        why, like = _address_fault(recipient), "ml-oncall@example.com"
    elif kind == "sms":
        why, like = _phone_fault(recipient), "+15551230000"
    else:
        return f"{clean(kind, 40)!r} has no recipients: only email and sms have"
    return None if why is None else f"{clean(recipient, 80)!r} {why} (write it like {like})"


def _address_fault(address: str) -> str | None:
    from email_validator import EmailNotValidError, validate_email  # only who is told needs it

    if len(address) > _LONGEST:
        return f"is no e-mail address: it has more than {_LONGEST} characters"
    if not address.isascii():
        return "is no e-mail address for SNS: a domain with other letters than ASCII begins xn--"
    try:
        validate_email(address, check_deliverability=False, strict=True)
    except EmailNotValidError as error:
        return f"is no e-mail address: {clean(str(error), 200).rstrip('.')}"
    return None


def _phone_fault(number: str) -> str | None:
    if _PHONE.fullmatch(number):
        return None
    return "is no phone number: + and country code, then digits, 7 to 15 in all, nothing between"


def _folded(recipient: str) -> str:
    """As it is compared: a domain is the same in all letter cases, a mailbox need not be."""
    mailbox, at, domain = recipient.rpartition("@")
    return f"{mailbox}{at}{domain.lower()}"


def recipients(
    allowed: Collection[str] | None = None, webhooks: Collection[str] | None = None
) -> Callable[[str, str], str | None]:
    """Says why an ``email``, ``sms`` or ``webhook`` cannot be sent to somebody, if so.

    ``allowed`` is as in ``refusal`` and ``webhooks`` are the endpoints that the deployment names;
    where one of them is None, only the form is looked at.
    """

    def refuses(kind: str, recipient: str) -> str | None:
        if kind != "webhook":
            if allowed is None:
                return malformed(kind, recipient)
            return refusal(kind, recipient, allowed)
        if webhooks is None or recipient in webhooks:
            return None
        return (
            f"the deployment names no webhook {clean(recipient, 80)!r}: add it to the option "
            "webhooks"
        )

    return refuses
