"""``tocsin status RUN``: the verdicts of one run, its alerts and its silences."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from tocsin.alerts import AlertGroup, alerts_document
from tocsin.aws.clients import AWS_ERRORS, real_client
from tocsin.aws.coordination import DynamoCoordination
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.reports import console_link, has_report, report_key
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.sns import Topic
from tocsin.cli.display import readable, styled, utc
from tocsin.cli.errors import CommandError, reason
from tocsin.cli.output import Document
from tocsin.cli.silences import print_silenced, silences_of_run, store
from tocsin.cli.stack import BUCKET, TABLE, TOPIC, Deployment
from tocsin.cli.status import run_of_job
from tocsin.cli.verdicts import print_verdicts
from tocsin.evaluation import Checkpoint, Trouble, document, with_cause
from tocsin.watch import Silence

Found = TypeVar("Found")
_STYLES = {"done": "green", "refused": "yellow", "failed": "bold red", "dry_run": "cyan"}


@dataclass(frozen=True)
class _AlertState:
    """The group that ``act`` keeps for a run, and the silences in force.

    known: whether ``act`` has seen the run.
    trouble: why ``evaluate`` does not look at the run now.
    """

    group: AlertGroup
    known: bool
    silences: Sequence[Silence]
    trouble: Trouble | None


def run_document(run: str, deployment: Deployment) -> tuple[Document, list[str]]:
    """Return the JSON of ``tocsin status RUN``, and notes for stderr.

    Alerts and subscriptions that cannot be read are null, with a note. Raises CommandError for a
    run that the stack does not know.
    """
    if not run.startswith("s3://"):
        run = run_of_job(run, deployment.find(BUCKET))
    run = run.rstrip("/")
    stored = S3Checkpoints(real_client("s3"), deployment.find(BUCKET)).load(run)
    state, notes = _or_note("alerts and silences", lambda: _alert_state(run, deployment))
    if stored.unreadable:
        notes = [f"the checkpoint of {run} cannot be read; its next file starts it again", *notes]
    if stored.checkpoint.note:
        notes = [f"{run}: {stored.checkpoint.note}", *notes]
    paused = _paused(state.trouble) if state else None
    if paused is not None:
        notes = [f"{run} is not watched until {paused['until']}: {paused['reason']}", *notes]
    found = document(stored.checkpoint)
    if stored.version is None:
        if state is None or not (state.known or paused):
            unknown = f"the stack does not know {run}: `tocsin status` lists the runs it knows"
            raise CommandError("; ".join((unknown, *notes)))
        job = state.group.job or found["job"]
        found = with_cause({**found, "job": job, "rules": _rules(state.group)})
    addresses, pending = _unconfirmed(deployment)
    report = _report(stored.checkpoint, deployment.find(BUCKET))
    found |= {**_alerts(state, found), "unconfirmed": addresses, "report": report}
    if paused is not None:
        found["paused"] = paused
    return found, [*notes, *pending]


def print_run(document: Document, console: Console, *, whole: bool, every: bool = False) -> None:
    """Print verdicts, silences and alerts: the last decisions, or the whole log of them."""
    print_verdicts(document, console, every=every)
    if document["report"]:
        console.print()
        console.print(styled(f"report: {document['report']}", "dim"), soft_wrap=True)
    if document["silences"]:
        console.print()
        print_silenced(document["silences"], console)
    alerts = document["alerts"] or []
    if alerts:
        console.print(Text("\nNotifications and actions", "bold"))
        _print_alerts(alerts if whole else _latest(alerts), console)
    elif whole and document["alerts"] is not None:
        console.print("\nno alert has been decided yet")


def subscription_notes(deployment: Deployment) -> list[str]:
    """Return a line for each unconfirmed address, or the reason why they are unknown."""
    return _unconfirmed(deployment)[1]


def _report(checkpoint: Checkpoint, bucket: str) -> str | None:
    """Return the console link of the run's report; None if there is none yet."""
    if not has_report(checkpoint):
        return None
    region = real_client("s3").meta.region_name
    return console_link(bucket, report_key(checkpoint.run), region)


def _alert_state(run: str, deployment: Deployment) -> _AlertState:
    table = Table(real_client("dynamodb"), deployment.find(TABLE))
    stored = DynamoGroups(table, time.time).load(run)
    silences = store(deployment).active(time.time())
    trouble = DynamoCoordination(table, time.time).trouble(run)
    return _AlertState(stored.group, stored.version is not None, silences, trouble)


def _paused(trouble: Trouble | None) -> Document | None:
    """Return why the run is not evaluated, and until when; None if it is."""
    if trouble is None or trouble.until <= time.time():
        return None
    until = utc(datetime.fromtimestamp(trouble.until, UTC))
    return {"reason": trouble.reason, "until": until}


def _alerts(state: _AlertState | None, found: Document) -> Document:
    if state is None:
        return {"alerts": None, "silences": None}
    rules = [rule["RuleConfigurationName"] for rule in found["rules"]]
    now = datetime.now(UTC)
    return {
        "alerts": _log(state.group),
        "silences": silences_of_run(found["job"], rules, state.group, state.silences, now),
    }


def _rules(group: AlertGroup) -> list[Document]:
    """The rules of a run without a checkpoint, as far as alerts show them."""
    return [
        {
            "RuleConfigurationName": name,
            "Rule": kept.alert.rule,
            "RuleEvaluationStatus": kept.alert.rule_evaluation_status.value,
            "StatusDetails": kept.alert.status_details,
            "Severity": kept.alert.severity,
            "FirstViolation": None,
            "FiredAt": None,
            "Violations": 0,
            "DataPoints": 0,
            "Parameters": {},
            "Missing": [],
        }
        for name, kept in group.alerts.items()
    ]


def _unconfirmed(deployment: Deployment) -> tuple[list[str] | None, list[str]]:
    found, notes = _or_note(
        "subscriptions", lambda: Topic(real_client("sns"), deployment.find(TOPIC)).unconfirmed()
    )
    pending = [
        f"{endpoint} has not confirmed its subscription and gets no alert: follow the link in the"
        " mail of AWS Notifications"
        for endpoint in found or ()
    ]
    return found, [*notes, *pending]


def _or_note(what: str, read: Callable[[], Found]) -> tuple[Found | None, list[str]]:
    """The result of ``read``; if it fails, None and a note."""
    try:
        return read(), []
    except (CommandError, *AWS_ERRORS, ValueError) as error:
        return None, [f"{what} are not known: {reason(error)}"]


def _log(group: AlertGroup) -> list[Document]:
    """The log of a group with times in ISO 8601, the oldest first."""
    rows = alerts_document(group)
    return [
        {**row, "at": utc(datetime.fromtimestamp(entry.at, UTC))}
        for row, entry in zip(rows, group.log, strict=True)
    ]


def _latest(alerts: Sequence[Document]) -> list[Document]:
    """The last decision for each rule and action, the oldest first."""
    last: dict[tuple[str, str], Document] = {}
    for alert in alerts:
        key = (alert["RuleConfigurationName"], alert["action"])
        last.pop(key, None)  # a later decision goes after those of other rules
        last[key] = alert
    return list(last.values())


def _print_alerts(alerts: Sequence[Document], console: Console) -> None:
    """The time (UTC), rule and action of each decision; below them why, and the outcome."""
    for alert in alerts:
        subject = f"{alert['RuleConfigurationName'] or '(the run)'}  {alert['action']}"
        console.print(Text.assemble((readable(alert["at"]), "dim"), "  ", styled(subject)))
        decision = styled(f"{alert['decision']}: {alert['reason']}")
        outcome = _outcome(alert)
        line = Text(" → ").join((decision, outcome)) if outcome else decision
        console.print(Padding(line, (0, 0, 0, 2)))


def _outcome(alert: Document) -> Text:
    """The outcome and its detail. A held alert has only the detail."""
    pending = "pending" if alert["decision"] == "send" else ""
    outcome = str(alert["outcome"] or pending)
    text = styled(outcome, _STYLES.get(outcome, ""))
    if alert["detail"]:
        text.append_text(styled(f"{': ' if outcome else ''}{alert['detail']}"))
    return text
