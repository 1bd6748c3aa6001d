"""A silence as the options of ``tocsin silence add`` describe it."""

from __future__ import annotations

import getpass
import re
from datetime import UTC, datetime, timedelta

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from tocsin.cli._alerts import utc
from tocsin.cli._errors import Problem
from tocsin.cli._stack import aws
from tocsin.model import Severity
from tocsin.parsing import seconds
from tocsin.watch import Silence
from tocsin.words import clean

LONGEST = timedelta(days=30)
_EXAMPLE = "2026-12-01T08:00Z"


def asked(
    *,
    job: str | None,
    rule: str | None,
    severity: Severity | None,
    everything: bool,
    until: datetime,
    reason: str,
) -> Silence:
    """The silence that the options describe, still without an author. Raises Problem."""
    silence = Silence(
        until=until,
        job="*" if job is None else job,
        rule="*" if rule is None else rule,
        severity=severity,
        reason=clean(reason, 512),
        id="",
    )
    narrow = severity is not None or {silence.job, silence.rule} != {"*"}
    if everything and narrow:
        raise Problem("--all is everything: leave out --job, --rule and --severity, or --all")
    if not everything and not narrow:
        raise Problem("say what to silence with --job, --rule or --severity, or --all")
    if not silence.reason:
        raise Problem("--reason is empty: say why, for others who miss the alerts")
    try:
        return msgspec.convert(msgspec.to_builtins(silence), Silence)
    except msgspec.ValidationError as error:
        wrong, _, option = str(error).partition(" - at `$.")
        raise Problem(f"--{option.rstrip('`')}: {wrong}") from error


def ending(lasting: str | None, until: str | None, now: datetime) -> datetime:
    """When a silence with ``--for`` or ``--until`` ends, in UTC. Raises Problem."""
    if (lasting is None) == (until is None):
        wrong = "a silence needs an end" if until is None else "a silence has one end"
        raise Problem(f"{wrong}: --for 2h or --until {_EXAMPLE}")
    end = _after(lasting, now) if lasting is not None else _moment(until or "")
    if end <= now:
        raise Problem(f"the silence would have ended already: it is {utc(now)}")
    if end - now > LONGEST:
        raise Problem(f"a silence lasts at most {LONGEST.days} days; for longer, change the rule")
    return end.astimezone(UTC).replace(microsecond=0)


def author_here() -> str:
    """Who is at this terminal: the user of the AWS credentials, else of the machine."""
    try:
        arn = aws("sts").get_caller_identity()["Arn"]
        return re.split("[/:]", arn)[-1]
    except (BotoCoreError, ClientError):
        try:
            return getpass.getuser()
        except (KeyError, OSError, ImportError):  # a container's user need not have a name
            return ""


def _after(lasting: str, now: datetime) -> datetime:
    if (time := seconds(lasting)) is None:
        raise Problem(f"--for {clean(lasting, 80)} is not a time: write 30m, 2h or 3d")
    return now + timedelta(seconds=min(time, 2 * LONGEST.total_seconds()))


def _moment(until: str) -> datetime:
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        raise Problem(f"--until {until} is not a time: write {_EXAMPLE}") from None
    if moment.tzinfo is None:
        raise Problem(f"--until {until} has no time zone: write {_EXAMPLE}")
    return moment
