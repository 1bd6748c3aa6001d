"""``tocsin status RUN``: what was evaluated, what was told of it and what was not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.text import Text

from tocsin.alerts import Group
from tocsin.alerts.aws import DynamoGroups, unconfirmed
from tocsin.cli._alerts import alerts_of, latest, print_alerts
from tocsin.cli._errors import Problem, reason
from tocsin.cli._output import Document
from tocsin.cli._silences import print_silenced, silences_of_run, store
from tocsin.cli._stack import BUCKET, TABLE, TOPIC, Deployment, aws
from tocsin.cli._text import plain
from tocsin.cli._verdicts import print_verdicts
from tocsin.evaluation import document
from tocsin.evaluation.aws import S3Checkpoints
from tocsin.watch import Silence

Found = TypeVar("Found")


@dataclass(frozen=True)
class _Told:
    """What ``act`` knows of a run, and the silences in force."""

    group: Group
    known: bool
    silences: Sequence[Silence]


def run_document(run: str, deployment: Deployment) -> tuple[Document, list[str]]:
    """The JSON of ``tocsin status RUN``, and what to note. What cannot be read of alerts and
    subscriptions is null, and noted. Raises Problem for a run that the stack never saw.
    """
    if not run.startswith("s3://"):
        raise Problem(f"{run}: the stack knows runs as s3://bucket/prefix")
    run = run.rstrip("/")
    stored = S3Checkpoints(aws("s3"), deployment.find(BUCKET)).load(run)
    told, said = _or_note("alerts and silences", lambda: _told(run, deployment))
    found = document(stored.checkpoint)
    if stored.version is None:
        if told is None or not told.known:
            unknown = f"nothing is known of {run}: `tocsin status` lists the runs that are known"
            raise Problem("; ".join((unknown, *said)))
        found |= {"job": told.group.job or found["job"], "rules": _rules(told.group)}
    silent, pending = _unconfirmed(deployment)
    return {**found, **_alerts(told, found), "unconfirmed": silent}, [*said, *pending]


def print_run(document: Document, console: Console, *, whole: bool) -> None:
    """Verdicts, silences and alerts for people: the last decisions, or the whole log of them."""
    print_verdicts(document, console)
    if document["silences"]:
        console.print()
        print_silenced(document["silences"], console)
    alerts = document["alerts"] or []
    if alerts:
        console.print(Text("\nWhat was told, and what was not", "bold"))
        print_alerts(alerts if whole else latest(alerts), console)
    elif whole and document["alerts"] is not None:
        console.print(plain("\nnothing has been decided about alerts yet"))


def subscription_notes(deployment: Deployment) -> list[str]:
    """A line for each address that gets nothing yet, or why that is not known."""
    return _unconfirmed(deployment)[1]


def _told(run: str, deployment: Deployment) -> _Told:
    groups = DynamoGroups(aws("dynamodb"), deployment.find(TABLE), time.time)
    stored = groups.load(run)
    silences = store(deployment).active(time.time())
    return _Told(stored.group, stored.version is not None, silences)


def _alerts(told: _Told | None, found: Document) -> Document:
    if told is None:
        return {"alerts": None, "silences": None}
    rules = [rule["RuleConfigurationName"] for rule in found["rules"]]
    now = datetime.now(UTC)
    return {
        "alerts": alerts_of(told.group),
        "silences": silences_of_run(found["job"], rules, told.group, told.silences, now),
    }


def _rules(group: Group) -> list[Document]:
    """The rules of a run that somebody else evaluates: all that is known of them are alerts."""
    return [
        {
            "RuleConfigurationName": name,
            "Rule": noted.alert.rule,
            "RuleEvaluationStatus": noted.alert.rule_evaluation_status.value,
            "StatusDetails": noted.alert.status_details,
            "Severity": noted.alert.severity,
            "FirstViolation": None,
            "FiredAt": None,
            "Violations": 0,
            "DataPoints": 0,
            "Parameters": {},
        }
        for name, noted in group.alerts.items()
    ]


def _unconfirmed(deployment: Deployment) -> tuple[list[str] | None, list[str]]:
    found, said = _or_note("subscriptions", lambda: unconfirmed(aws("sns"), deployment.find(TOPIC)))
    told = [
        f"{endpoint} has not confirmed its subscription and gets no alert: follow the link in the"
        " mail of AWS Notifications"
        for endpoint in found or ()
    ]
    return found, [*said, *told]


def _or_note(what: str, read: Callable[[], Found]) -> tuple[Found | None, list[str]]:
    """What is read; where that fails, None and why."""
    try:
        return read(), []
    except (Problem, BotoCoreError, ClientError, ValueError) as error:
        return None, [f"{what} are not known: {reason(error)}"]
