"""The demo: a training goes wrong on the embedded AWS, and everybody can see what happens."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tocsin.alerts import Group, Hold, alerts_document
from tocsin.alerts.aws import DynamoGroups
from tocsin.evaluation import Checkpoint, check, document
from tocsin.evaluation.aws import S3Checkpoints
from tocsin.events import ACTION_TAKEN, ISSUES_FOUND, METRIC_NAMESPACE, STATUS_CHANGE
from tocsin.model import RuleStatus
from tocsin.tensors import open_storage

from local.events import JOB, Event, Events, listen
from local.mailbox import Message
from local.narrator import Narrator
from local.reaper import Reaper
from local.scenarios import SCENARIOS as _SCENARIOS
from local.scenarios import Scenario
from local.stack import LocalAws, local_aws
from local.trainings import Training, start, steps_done, written_at

SCENARIOS: Mapping[str, str] = {name: it.description for name, it in _SCENARIOS.items()}
"""The names that ``run`` knows, and what each shows."""

SUBSCRIBERS = {"emails": "ml-oncall@example.com", "phones": "+15551230000"}
"""Whom the stack is deployed for; in the embedded AWS nobody gets anything."""

_PATIENCE = 120.0  # seconds; a demo that takes longer has failed and says what it waits for


@dataclass
class _Seen:
    """What came over the buses while the scenario ran."""

    statuses: list[Event] = field(default_factory=list)
    actions: list[Event] = field(default_factory=list)


def run(scenario: str, console: Any, *, as_json: bool = False) -> dict[str, Any]:
    """Play a scenario from nothing to nothing; its document, as ``tocsin demo --json`` has it.

    The narration goes to ``console`` (rich), unless ``as_json``. KeyError for an unknown scenario.
    """
    story = _SCENARIOS[scenario]
    narrator = Narrator(console, quiet=as_json)
    narrator.says("starting the embedded AWS and deploying the stack to it")
    with local_aws(SUBSCRIBERS) as aws:
        narrator.stack(aws.describe())
        return play(aws, scenario, story, narrator)


def play(aws: LocalAws, scenario: str, story: Scenario, narrator: Narrator) -> dict[str, Any]:
    """Play a scenario on an embedded AWS that is up; several can follow each other on one."""
    name = f"{scenario}-{datetime.now(UTC):%H%M%S%f}"
    events = listen(aws.client, aws.outputs["EventBusName"], f"demo-{name}")
    with Reaper() as reaper:
        narrator.begins(scenario, story, name)
        training = start(aws, reaper, name, story)
        seen, checkpoint, group = _follow(aws, training, name, events, narrator)
        result = _result(aws, scenario, story, name, training, seen, checkpoint, group)
        narrator.ends(result, story)
        return result


def _follow(
    aws: LocalAws, training: Training, name: str, events: Events, narrator: Narrator
) -> tuple[_Seen, Checkpoint, Group]:
    """Show events as they come, until the training is over and all that it caused is done."""
    checkpoints = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
    groups = DynamoGroups(aws.client("dynamodb"), aws.outputs["StateTableName"], time.time)
    seen = _Seen()
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        arrived = [event for event in events.receive() if _concerns(event, name)]
        for event in arrived:
            narrator.event(event)
            kept = {STATUS_CHANGE: seen.statuses, ACTION_TAKEN: seen.actions}.get(
                event["detail-type"]
            )
            if kept is not None:
                kept.append(event["detail"])
        if arrived or not training.over():
            continue
        checkpoint = checkpoints.load(training.run).checkpoint
        group = groups.load(training.run).group
        if checkpoint.ended and _acted(seen, group):
            return seen, checkpoint, group
    raise TimeoutError(f"{name} has not come to its end within {_PATIENCE:g} s: {training.run}")


def _concerns(event: Event, name: str) -> bool:
    known = event["detail-type"] in (STATUS_CHANGE, ACTION_TAKEN, JOB)
    return known and event["detail"].get("TrainingJobName") == name


def _acted(seen: _Seen, group: Group) -> bool:
    """Whether all that fired has been decided on and done, and the run's end is known."""
    fired = {
        alert["RuleConfigurationName"]
        for alert in seen.statuses
        if alert["RuleEvaluationStatus"] == RuleStatus.ISSUES_FOUND
    }
    waiting = Hold.GROUP_WAIT in group.held.values()
    return group.ended and fired <= set(group.alerts) and not group.tasks and not waiting


def _result(
    aws: LocalAws,
    scenario: str,
    story: Scenario,
    name: str,
    training: Training,
    seen: _Seen,
    checkpoint: Checkpoint,
    group: Group,
) -> dict[str, Any]:
    stopped_at = training.stopped_at()
    done = steps_done(training.checkpoint)
    messages = aws.mailbox.receive()
    mine = [message for message in messages if message.attributes.get("job") == name]
    deployed = document(checkpoint)
    storage = open_storage(training.run, client=aws.client("s3"))
    return {
        "scenario": scenario,
        "job": name,
        "run": training.run,
        "planned_steps": story.planned_steps,
        "stopped": stopped_at is not None,
        "stopped_at_step": done if stopped_at is not None else None,
        "steps_done": done,
        "not_judged": deployed["not_judged"],
        "rules": deployed["rules"],
        "check_agrees": document(check(storage)[0]) == deployed,
        "email": _email(mine),
        "sms": _sms(mine),
        "messages": len(mine),
        "alerts": alerts_document(group),
        "metric": _metric(aws, name, seen),
        "latency_ms": {"index_to_stop": _index_to_stop(seen, training, stopped_at, storage)},
        "report": None,
    }


def _email(messages: list[Message]) -> dict[str, str] | None:
    """The first e-mail that a subscriber would have got."""
    mails = [message for message in messages if message.by_email]
    return {"subject": mails[0].subject, "body": mails[0].body} if mails else None


def _sms(messages: list[Message]) -> str | None:
    texts = [message.body for message in messages if message.by_sms]
    return texts[0] if texts else None


def _metric(aws: LocalAws, name: str, seen: _Seen) -> dict[str, Any] | None:
    """IssuesFound of the rule that stopped the job, or of the first, read back from CloudWatch."""
    alerts = [it for it in seen.statuses if it["RuleEvaluationStatus"] == RuleStatus.ISSUES_FOUND]
    alerts.sort(key=lambda alert: "stop" not in alert["Actions"])
    if not alerts:
        return None
    dimensions = [
        {"Name": "Rule", "Value": alerts[0]["RuleConfigurationName"]},
        {"Name": "TrainingJobName", "Value": name},
    ]
    now = datetime.now(UTC)
    points = aws.client("cloudwatch").get_metric_statistics(
        Namespace=METRIC_NAMESPACE,
        MetricName=ISSUES_FOUND,
        Dimensions=dimensions,
        StartTime=now - timedelta(minutes=10),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum"],
    )["Datapoints"]
    return {
        "Namespace": METRIC_NAMESPACE,
        "MetricName": ISSUES_FOUND,
        "Dimensions": {item["Name"]: item["Value"] for item in dimensions},
        "Sum": sum(point["Sum"] for point in points),
    }


def _index_to_stop(
    seen: _Seen, training: Training, stopped_at: float | None, storage: Any
) -> float | None:
    """Milliseconds from the bad step's index file in the bucket to the call that stops the job."""
    stops = {action["DedupId"] for action in seen.actions if action["Action"] == "stop"}
    alert = next((it for it in seen.statuses if it["DedupId"] in stops), None)
    if alert is None or stopped_at is None:
        return None
    written = written_at(storage, alert["Step"], alert["Worker"])
    return None if written is None else round(1000 * (stopped_at - written), 1)
