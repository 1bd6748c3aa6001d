"""Silences of a deployment: made from options, stored, printed, and matched with a run."""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

import msgspec
from rich.console import Console
from rich.text import Text

from tocsin.alerts import AlertGroup
from tocsin.aws.clients import AWS_ERRORS, real_client
from tocsin.aws.dynamodb import Table
from tocsin.aws.silences import DynamoSilences
from tocsin.cli.display import readable, styled, table, utc
from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.cli.stack import TABLE, Deployment
from tocsin.model import Severity
from tocsin.parsing import TIME_EXAMPLE, moment, seconds
from tocsin.watch import Silence
from tocsin.words import clean

LONGEST = timedelta(days=30)
_MOST_NAMES = 6  # of rules, on a line for people


def store(deployment: Deployment) -> DynamoSilences:
    """Raises CommandError if there is no such deployment."""
    return DynamoSilences(Table(real_client("dynamodb"), deployment.find(TABLE)), time.time)


def silence_from_options(
    *,
    job: str | None,
    rule: str | None,
    severity: Severity | None,
    everything: bool,
    until: datetime,
    reason: str,
) -> Silence:
    """Return the silence that the options of ``tocsin silence add`` describe, without an author.

    Raises CommandError.
    """
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
        raise CommandError(
            "--all covers everything: leave out either --all or --job, --rule and --severity"
        )
    if not everything and not narrow:
        raise CommandError("say what to silence with --job, --rule or --severity, or --all")
    if not silence.reason:
        raise CommandError("--reason is empty: say why, for others who miss the alerts")
    try:
        return msgspec.convert(msgspec.to_builtins(silence), Silence)
    except msgspec.ValidationError as error:
        wrong, _, option = str(error).partition(" - at `$.")
        raise CommandError(f"--{option.rstrip('`')}: {wrong}") from error


def end_of_silence(duration: str | None, until: str | None, now: datetime) -> datetime:
    """Return the end of a silence with ``--for`` or ``--until``, in UTC. Raises CommandError."""
    if (duration is None) == (until is None):
        wrong = "a silence needs an end" if until is None else "a silence needs exactly one end"
        raise CommandError(f"{wrong}: --for 2h or --until {TIME_EXAMPLE}")
    if duration is not None:
        if (length := seconds(duration)) is None:
            text = f"--for {clean(duration, 80)} is not a length of time: write 30m, 2h or 3d"
            raise CommandError(text)
        end = now + timedelta(seconds=min(length, 2 * LONGEST.total_seconds()))
    elif (parsed := moment(until)) is None:
        text = f"--until {clean(until or '', 80)} is not a time with a time zone"
        raise CommandError(f"{text}: write {TIME_EXAMPLE}")
    else:
        end = parsed
    if end <= now:
        raise CommandError(f"the silence would have ended already: it is {utc(now)}")
    if end - now > LONGEST:
        text = f"a silence lasts at most {LONGEST.days} days; for longer, change the rule"
        raise CommandError(text)
    return end.replace(microsecond=0)


def author_here() -> str:
    """Return the name of the user: of the AWS credentials, else of the machine."""
    try:
        arn = real_client("sts").get_caller_identity()["Arn"]
        return re.split("[/:]", arn)[-1]
    except AWS_ERRORS:
        try:
            return getpass.getuser()
        except (KeyError, OSError, ImportError):  # a container's user need not have a name
            return ""


def silence_document(silence: Silence, now: datetime) -> Document:
    return {
        "id": silence.id,
        "job": silence.job,
        "rule": silence.rule,
        "severity": silence.severity,
        "until": utc(silence.until),
        "author": silence.author,
        "reason": silence.reason,
        "active": silence.until > now,
    }


def print_silence(document: Document, console: Console) -> None:
    """Print one silence, and how to end it."""
    state = "silent until" if document["active"] else "no longer silenced, since"
    console.print(styled(f"{state} {readable(document['until'])} UTC: {_subject(document)}"))
    if document["active"]:
        console.print(styled(f"to end it sooner: tocsin silence expire {document['id']}"))


def print_silences(document: Document, console: Console) -> None:
    if not document["silences"]:
        console.print("nothing is silenced")
        return
    grid = table()
    grid.add_column("id", no_wrap=True)
    grid.add_column("until (UTC)", no_wrap=True)
    grid.add_column("what", overflow="fold")
    grid.add_column("by", overflow="fold")
    grid.add_column("reason", overflow="fold")
    for silence in document["silences"]:
        style = "" if silence["active"] else "dim"
        until = readable(silence["until"])
        cells = (silence["id"], until, _subject(silence), silence["author"], silence["reason"])
        grid.add_row(*(styled(cell, style) for cell in cells))
    console.print(grid)


def silences_of_run(
    job: str, rules: Sequence[str], group: AlertGroup, stored: Iterable[Silence], now: datetime
) -> list[Document]:
    """Return the silences in force, stored ones and those of the watch file, that cover rules of a
    run.

    Each lists the rules that it covers. A rule's severity is that of its last alert.
    """
    found: dict[object, Document] = {}
    severities = {rule: kept.alert.severity for rule, kept in group.alerts.items()}
    for silence in stored:
        if covered := _covered_rules(silence, job, rules, severities):
            found[silence.id] = _run_silence(silence, covered)
    for rule, kept in group.alerts.items():
        for own in kept.alert.silences:
            if own.until > now and fnmatchcase(job, own.job):
                silence = Silence(own.until, own.job, author=own.author, reason=own.reason)
                found.setdefault(own, _run_silence(silence, []))["rules"].append(rule)
    return list(found.values())


def print_silenced(silences: Iterable[Document], console: Console) -> None:
    """Print a line for each silence that covers a run."""
    for silence in silences:
        line = Text("silenced by ", "yellow")
        line.append_text(styled(silence["author"] or "somebody"))
        line.append_text(styled(f" until {readable(silence['until'])} UTC ({silence['id']})"))
        reason = f", {silence['reason']}" if silence["reason"] else ""
        line.append_text(styled(f"{reason}: {_shortened(silence['rules'])}"))
        console.print(line)


def _covered_rules(
    silence: Silence, job: str, rules: Sequence[str], severities: Mapping[str, Severity]
) -> list[str]:
    if silence.severity is None:
        return [rule for rule in rules if silence.covers(job, rule, Severity.WARNING)]
    return [rule for rule, severity in severities.items() if silence.covers(job, rule, severity)]


def _run_silence(silence: Silence, rules: list[str]) -> Document:
    return {
        "id": silence.id,
        "job": silence.job,
        "until": utc(silence.until),
        "author": silence.author,
        "reason": silence.reason,
        "rules": rules,
    }


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _subject(silence: Document) -> str:
    parts = {"job": silence["job"], "rule": silence["rule"], "severity": silence["severity"]}
    named = [f"{key} {text}" for key, text in parts.items() if text not in ("*", None)]
    return ", ".join(named) or "everything"
