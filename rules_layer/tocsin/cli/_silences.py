"""The silences of a deployment: where they are, how they are told, which cover a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from rich.console import Console
from rich.text import Text

from tocsin.alerts import Group
from tocsin.alerts.aws import DynamoSilences
from tocsin.cli._alerts import people, utc
from tocsin.cli._look import table
from tocsin.cli._output import Document
from tocsin.cli._stack import TABLE, Deployment, aws
from tocsin.cli._text import plain
from tocsin.model import Severity
from tocsin.watch import Silence

_MOST_NAMES = 6  # of rules, on a line for people


def store(deployment: Deployment) -> DynamoSilences:
    """Raises Problem where there is no such deployment."""
    return DynamoSilences(aws("dynamodb"), deployment.find(TABLE), time.time)


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
    """What is silent now, or is not any more."""
    state = "silent until" if document["active"] else "not silent any more, since"
    console.print(plain(f"{state} {people(document['until'])} UTC: {_what(document)}"))
    if document["active"]:
        console.print(plain(f"to end it sooner: tocsin silence expire {document['id']}"))


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
        until = people(silence["until"])
        cells = (silence["id"], until, _what(silence), silence["author"], silence["reason"])
        grid.add_row(*(plain(cell, style) for cell in cells))
    console.print(grid)


def silences_of_run(
    job: str, rules: Sequence[str], group: Group, stored: Iterable[Silence], now: datetime
) -> list[Document]:
    """Those in force that cover rules of the run, stored ones and its watch file's, each with
    the rules that it covers. A rule's severity is that of its last alert.
    """
    found: dict[object, Document] = {}
    severities = {rule: noted.alert.severity for rule, noted in group.alerts.items()}
    for silence in stored:
        if covered := _covered(silence, job, rules, severities):
            found[silence.id] = _over(silence, covered)
    for rule, noted in group.alerts.items():
        for own in noted.alert.silences:
            if own.until > now and fnmatchcase(job, own.job):
                silence = Silence(own.until, own.job, author=own.author, reason=own.reason)
                found.setdefault(own, _over(silence, []))["rules"].append(rule)
    return list(found.values())


def print_silenced(silences: Iterable[Document], console: Console) -> None:
    """A line for each silence that covers a run."""
    for silence in silences:
        line = Text("silenced by ", "yellow")
        line.append_text(plain(silence["author"] or "somebody"))
        line.append_text(plain(f" until {people(silence['until'])} UTC ({silence['id']})"))
        reason = f", {silence['reason']}" if silence["reason"] else ""
        line.append_text(plain(f"{reason}: {_few(silence['rules'])}"))
        console.print(line)


def _covered(
    silence: Silence, job: str, rules: Sequence[str], severities: Mapping[str, Severity]
) -> list[str]:
    if silence.severity is None:
        return [rule for rule in rules if silence.covers(job, rule, Severity.WARNING)]
    return [rule for rule, severity in severities.items() if silence.covers(job, rule, severity)]


def _over(silence: Silence, rules: list[str]) -> Document:
    return {
        "id": silence.id,
        "job": silence.job,
        "until": utc(silence.until),
        "author": silence.author,
        "reason": silence.reason,
        "rules": rules,
    }


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _what(silence: Document) -> str:
    parts = {"job": silence["job"], "rule": silence["rule"], "severity": silence["severity"]}
    named = [f"{key} {text}" for key, text in parts.items() if text not in ("*", None)]
    return ", ".join(named) or "everything"
