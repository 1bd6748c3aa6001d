"""A silence as it is asked for on the command line."""

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
from tocsin.watch import Silence
from tocsin.words import clean

LONGEST = timedelta(days=30)
_EXAMPLE = "2026-12-01T08:00Z"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def asked(
    *,
    job: str | None,
    rule: str | None,
    severity: Severity | None,
    everything: bool,
    until: datetime,
    reason: str,
) -> Silence:
    """The silence that options ask for, of no author yet. Raises Problem for what makes none."""
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
        raise Problem("--reason is empty: say why, for those who wonder where the alerts are")
    try:
        return msgspec.convert(msgspec.to_builtins(silence), Silence)
    except msgspec.ValidationError as error:
        wrong, _, option = str(error).partition(" - at `$.")
        raise Problem(f"--{option.rstrip('`')}: {wrong}") from error


def ending(lasting: str | None, until: str | None, now: datetime) -> datetime:
    """When a silence of ``--for`` or ``--until`` is over, in UTC. Raises Problem."""
    if (lasting is None) == (until is None):
        wrong = "no silence without an end" if until is None else "one end is enough"
        raise Problem(f"{wrong}: --for 2h or --until {_EXAMPLE}")
    end = _after(lasting, now) if lasting is not None else _moment(until or "")
    if end <= now:
        raise Problem(f"the silence would be over already: it is {utc(now)}")
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
    time = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", lasting)
    if time is None:
        raise Problem(f"--for {lasting} is no time: write 30m, 2h or 3d")
    seconds = float(time[1]) * _UNITS[time[2]]
    return now + min(timedelta(seconds=seconds), 2 * LONGEST)


def _moment(until: str) -> datetime:
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        raise Problem(f"--until {until} is no time: write {_EXAMPLE}") from None
    if moment.tzinfo is None:
        raise Problem(f"--until {until} has no time zone: write {_EXAMPLE}")
    return moment
