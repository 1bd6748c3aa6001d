"""Parses values that people write as text in a watch file, an option or a command.

A function named ``*_fault`` returns one line that says why a text is not valid, and what is; None
for a valid text.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from tocsin.words import clean

DEFAULT_STOP_LIMIT = "10/10m"
TIME_EXAMPLE = "2026-12-01T08:00Z"

_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_ZULU = re.compile(r"[zZ]\Z")
_STOP_LIMIT = re.compile(r"([1-9][0-9]{0,3})/(.+)")
MOST_STOPS = 1000  # one item of the state table remembers each
_WINDOW = (60.0, 86400.0)  # seconds, from 1m to 24h

_PHONE = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164
# An address may have a * by its standard. Here * stands for all addresses of a domain.
_EMAIL = re.compile(r"[^@\s,;<>*]+@[^@\s,;<>*]+\.[^@\s,;<>*.]+")
_LONGEST_EMAIL = 320  # a local part and a domain; more is not worth the work of a check
_WEBHOOK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_METRIC = re.compile(r"[!-9;-~][ -~]{0,254}")  # what CloudWatch accepts
_CHANGE = re.compile(r"(x|-)?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})(e[+-]?[0-9]{1,3})?", re.I)
_JOB = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")  # what SageMaker accepts


def seconds(value: object) -> float | None:
    """Return the length of a time such as ``500ms``, ``30s``, ``4h``, ``2d``; None for others.

    >>> seconds("1.5m"), seconds("soon")
    (90.0, None)
    """
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    length = float(found[1]) * _SECONDS[found[2]] if found else math.inf
    return length if math.isfinite(length) else None


def moment(value: object) -> datetime | None:
    """Return a time with a time zone, in UTC; None for anything else, and outside the years of UTC.

    >>> moment("2026-12-01T09:00+01:00"), moment("2026-12-01T08:00")
    (datetime.datetime(2026, 12, 1, 8, 0, tzinfo=datetime.timezone.utc), None)
    """
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(_ZULU.sub("+00:00", value))  # Python 3.10 does not know Z
        return None if time.tzinfo is None else time.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class StopLimit:
    """At most ``most`` runs are stopped within any ``seconds`` seconds."""

    most: int
    seconds: float


def stop_limit(value: object) -> StopLimit:
    """Return the stop guard's limit, written as runs per time. Raises ValueError that says what is
    valid.

    >>> stop_limit("10/10m")
    StopLimit(most=10, seconds=600.0)
    """
    found = _STOP_LIMIT.fullmatch(value) if isinstance(value, str) else None
    most, window = (int(found[1]), seconds(found[2])) if found else (0, None)
    if window is None or most > MOST_STOPS or not _WINDOW[0] <= window <= _WINDOW[1]:
        raise ValueError(
            f"{_shown(value)} is not a stop limit: write runs per time, 1 to {MOST_STOPS} in 1m "
            f"to 24h, like {DEFAULT_STOP_LIMIT}"
        )
    return StopLimit(most, window)


def phone_fault(number: str) -> str | None:
    """Check a phone number in the form of E.164."""
    valid = "write + and the country code, then digits only, 7 to 15 in all, like +15551230000"
    return _fault(_PHONE, number, f"a phone number: {valid}")


def email_fault(address: str, *, form_only: bool = False) -> str | None:
    """Check an e-mail address; no server is asked.

    ``form_only`` leaves out what needs the package email-validator, which a training process does
    not have. It finds no fault in an address that the whole check accepts.
    """
    reason = None if form_only else _email_reason(address)
    if reason is None and _EMAIL.fullmatch(address):
        return None
    reason = reason or "it must be a name, @ and a domain, with no space, comma or *"
    example = "write it like ml-oncall@example.com"
    return f"{_shown(address)} is not an e-mail address: {reason} ({example})"


def webhook_name_fault(name: str) -> str | None:
    """Check the name that a deployment gives to a webhook."""
    valid = "write a letter or digit, then at most 63 letters, digits, dots, dashes, underscores"
    return _fault(_WEBHOOK, name, f"a webhook's name: {valid}")


def metric_name_fault(name: str) -> str | None:
    """Check a name for a CloudWatch metric."""
    valid = "write 1 to 255 printable ASCII characters, no space or colon first"
    return _fault(_METRIC, name, f"a metric name: {valid}")


def job_name_fault(name: object) -> str | None:
    """Check a name for a SageMaker training job."""
    valid = "write 1 to 63 letters, digits and dashes, no dash first or last"
    return _fault(_JOB, name, f"a training job's name: {valid}")


def change_fault(name: str, change: str) -> str | None:
    """Check a change of a hyper-parameter: only numbers, for a text might name code or a file."""
    if name.startswith("sagemaker_"):
        return f"{_shown(name)} is SageMaker's own, and may name code: change another one"
    value = float(change.removeprefix("x")) if _CHANGE.fullmatch(change) else math.nan
    if math.isfinite(value) and (value > 0 or not change.startswith("x")):
        return None
    return f"{_shown(change)} is not a change: write a factor such as x0.3, or a number"


def changed(value: str, change: str) -> str | None:
    """Return the value of a hyper-parameter after a change; None if it is not a finite number, or
    would underflow to zero.

    >>> changed("0.1", "x0.3"), changed("64", "x0.5"), changed("0.1", "0.02"), changed("adam", "x2")
    ('0.03', '32', '0.02', None)
    """
    try:
        before = float(value)
    except ValueError:
        return None
    if not change.startswith("x"):
        return change if math.isfinite(before) else None
    after = before * float(change[1:])
    if not math.isfinite(after) or (after == 0) != (before == 0):
        return None
    return str(int(after)) if after.is_integer() and abs(after) < 1 << 53 else f"{after:.12g}"


def list_items(value: object) -> list[Any] | None:
    """Return the items of a list, of text that holds a JSON list, or of text with commas; else
    None.

    >>> list_items("a, b,"), list_items('["a"]'), list_items("[")
    (['a', 'b'], ['a'], None)
    """
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [item.strip() for item in value.split(",") if item.strip()]
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def _fault(pattern: re.Pattern[str], value: object, kind: str) -> str | None:
    if isinstance(value, str) and pattern.fullmatch(value):
        return None
    return f"{_shown(value)} is not {kind}"


def _email_reason(address: str) -> str | None:
    from email_validator import EmailNotValidError, validate_email  # slow to import, seldom needed

    if len(address) > _LONGEST_EMAIL:
        return f"it has more than {_LONGEST_EMAIL} characters"
    if not address.isascii():
        return "SNS accepts ASCII only; other letters of a domain are written xn--"
    try:
        validate_email(address, check_deliverability=False, strict=True)
    except EmailNotValidError as error:
        return clean(str(error), 200).rstrip(".")
    return None


def _shown(value: object) -> str:
    return repr(clean(value, 80)) if isinstance(value, str) else clean(repr(value), 80)
