"""The demo: a training goes wrong on the embedded AWS; every event is shown."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tocsin.actions.next_job import CHECKPOINT_STEP
from tocsin.alerts import AlertGroup, Hold, alerts_document
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.s3 import S3Checkpoints
from tocsin.evaluation import Checkpoint, check, document
from tocsin.events import ACTION_TAKEN, ISSUES_FOUND, METRIC_NAMESPACE, STATUS_CHANGE
from tocsin.model import RuleStatus
from tocsin.report import Alert, History, Trace, html_of, json_of, machine_of, page_of
from tocsin.tensors import Storage, open_storage

from local.events import JOB, Event, Events, listen
from local.fleet import fleet_page
from local.mailbox import MailboxMessage
from local.narrator import Narrator
from local.paths import REPORTS
from local.reaper import Reaper
from local.scenarios import SCENARIOS as _SCENARIOS
from local.scenarios import Scenario
from local.stack import LocalAws, local_aws
from local.trainings import (
    ROLE,
    RunningTraining,
    SageMakerTraining,
    start,
    steps_done,
    written_at,
)

SCENARIOS: Mapping[str, str] = {name: it.description for name, it in _SCENARIOS.items()}
"""The names that ``run`` knows, each with a description."""

OPTIONS = {"emails": "ml-oncall@example.com", "phones": "+15551230000", "relaunch": ROLE}
"""The options of the stack. The embedded AWS sends nothing to anybody."""

_PATIENCE = 120.0  # seconds until the demo has failed


@dataclass
class _Seen:
    """Events of the scenario."""

    statuses: list[Event] = field(default_factory=list)
    actions: list[Event] = field(default_factory=list)


def run(scenario: str, console: Any, *, as_json: bool = False) -> dict[str, Any]:
    """Run a scenario on an embedded AWS of its own. Returns the document of ``tocsin demo --json``.

    The narration goes to ``console`` (rich), unless ``as_json``. KeyError for an unknown scenario.
    """
    story = _SCENARIOS[scenario]
    narrator = Narrator(console, quiet=as_json)
    with local_aws(OPTIONS, say=narrator.say, patient=False) as aws:
        narrator.stack(aws.describe())
        return play(aws, scenario, story, narrator)


def play(aws: LocalAws, scenario: str, story: Scenario, narrator: Narrator) -> dict[str, Any]:
    """Run a scenario on an embedded AWS that is up. It can run several, one after another."""
    name = f"{scenario}-{datetime.now(UTC):%H%M%S%f}"
    events = listen(aws.client, aws.outputs["EventBusName"], f"demo-{name}")
    with Reaper() as reaper:
        narrator.begin(scenario, story, name)
        training = start(aws, reaper, name, story)
        seen, checkpoint, group = _follow(aws, training, name, events, narrator)
        result = _result(aws, scenario, story, name, training, seen, checkpoint, group)
        if story.relaunched:
            result["relaunched"] = _follow_again(aws, training, name, story, events, narrator)
            result["alerts"] = alerts_document(_groups(aws).load(training.run).group)
        if story.shows_fleet:
            page = fleet_page(aws.client("lambda"), aws.outputs["FleetFunctionName"])
            result["fleet"] = str(page)
        narrator.end(result, story)
        return result


def _follow(
    aws: LocalAws, training: RunningTraining, name: str, events: Events, narrator: Narrator
) -> tuple[_Seen, Checkpoint, AlertGroup]:
    """Show events as they come, until the training has ended and no action is pending."""
    checkpoints = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
    groups = _groups(aws)
    seen = _Seen()
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        arrived = [event for event in events.receive() if _concerns(event, name)]
        for event in arrived:
            narrator.event(event)
            kept = {STATUS_CHANGE: seen.statuses, ACTION_TAKEN: seen.actions}.get(
                event["detail-type"]
            )
            if kept is not None and event["detail"]["Run"] == training.run:
                kept.append(event["detail"])
        if arrived or not training.ended():
            continue
        checkpoint = checkpoints.load(training.run).checkpoint
        group = groups.load(training.run).group
        if checkpoint.ended and _acted(seen, group):
            return seen, checkpoint, group
    raise TimeoutError(f"{name} has not ended within {_PATIENCE:g} s: {training.run}")


def _follow_again(
    aws: LocalAws,
    training: RunningTraining,
    name: str,
    story: Scenario,
    events: Events,
    narrator: Narrator,
) -> dict[str, Any]:
    """Show the events of the job that goes on, until it has ended. Returns its result."""
    again = f"{name}-r1"
    next_run = training.run.replace(f"/{name}/", f"/{again}/")
    job = SageMakerTraining(aws, again, next_run, training.checkpoint)
    _, checkpoint, _ = _follow(aws, job, again, events, narrator)
    described = document(checkpoint)
    parameters = aws.jobs.get(again).request
    return {
        "job": again,
        "run": next_run,
        "status": aws.jobs.get(again).status,
        "hyperparameters": parameters["HyperParameters"],
        "from_step": int(parameters["Environment"][CHECKPOINT_STEP]),
        "steps_done": steps_done(training.checkpoint),
        "planned_steps": story.planned_steps,
        "cause": described["cause"],
        "rules": described["rules"],
    }


def _groups(aws: LocalAws) -> DynamoGroups:
    table = Table(aws.client("dynamodb"), aws.outputs["StateTableName"])
    return DynamoGroups(table, time.time)


def _concerns(event: Event, name: str) -> bool:
    known = event["detail-type"] in (STATUS_CHANGE, ACTION_TAKEN, JOB)
    return known and event["detail"].get("TrainingJobName") in (name, f"{name}-r1")


def _acted(seen: _Seen, group: AlertGroup) -> bool:
    """Return whether every alert is decided, no action is pending, and the run has ended."""
    fired = {
        alert["RuleConfigurationName"]
        for alert in seen.statuses
        if alert["RuleEvaluationStatus"] == RuleStatus.ISSUES_FOUND
    }
    collecting = Hold.GROUP_WAIT in group.held.values()
    return group.ended and fired <= set(group.alerts) and not group.tasks and not collecting


def _result(
    aws: LocalAws,
    scenario: str,
    story: Scenario,
    name: str,
    training: RunningTraining,
    seen: _Seen,
    checkpoint: Checkpoint,
    group: AlertGroup,
) -> dict[str, Any]:
    stopped_at = training.stopped_at()
    done = steps_done(training.checkpoint)
    messages = aws.mailbox.receive()
    mine = [message for message in messages if message.attributes.get("job") == name]
    deployed = document(checkpoint)
    storage = open_storage(training.run, client=aws.client("s3"))
    trace = Trace()
    checked, _ = check(storage, on_verdict=trace.add)
    return {
        "scenario": scenario,
        "job": name,
        "run": training.run,
        "planned_steps": story.planned_steps,
        "stopped": stopped_at is not None,
        "stopped_at_step": done if stopped_at is not None else None,
        "steps_done": done,
        "not_judged": deployed["not_judged"],
        "cause": deployed["cause"],
        "rules": deployed["rules"],
        "check_agrees": document(checked) == deployed,
        "email": _email(mine),
        "sms": _sms(mine),
        "messages": len(mine),
        "alerts": alerts_document(group),
        "metric": _metric(aws, name, seen),
        "latency_ms": {"index_to_stop": _index_to_stop(seen, training, stopped_at, storage)},
        "report": str(_report(checked, trace, storage, scenario, story, seen)),
    }


def _report(
    checked: Checkpoint,
    trace: Trace,
    storage: Storage,
    scenario: str,
    story: Scenario,
    seen: _Seen,
) -> Path:
    """Write the run's report. The bucket is gone when the demo has ended."""
    steps = {status["DedupId"]: status["Step"] for status in seen.statuses}
    alerts = [
        Alert(
            steps.get(it["DedupId"]),
            it["RuleConfigurationName"],
            it["Action"],
            it["Outcome"],
            it["Detail"],
        )
        for it in seen.actions
    ]
    history = History(storage)
    history.refresh()
    made, planned = datetime.now(UTC), story.planned_steps or None
    machine = machine_of(storage, document(checked), own=True) if story.machine else None
    page = page_of(
        checked, trace, history, made=made, planned=planned, alerts=alerts, machine=machine
    )
    REPORTS.mkdir(parents=True, exist_ok=True)
    path = REPORTS / f"{scenario}.html"
    path.write_text(html_of(page), "utf-8")
    path.with_suffix(".json").write_bytes(json_of(page))
    return path


def _email(messages: list[MailboxMessage]) -> dict[str, str] | None:
    """The first e-mail that a subscriber would have got."""
    mails = [message for message in messages if message.by_email]
    return {"subject": mails[0].subject, "body": mails[0].body} if mails else None


def _sms(messages: list[MailboxMessage]) -> str | None:
    texts = [message.body for message in messages if message.by_sms]
    return texts[0] if texts else None


def _metric(aws: LocalAws, name: str, seen: _Seen) -> dict[str, Any] | None:
    """IssuesFound in CloudWatch for the rule that stopped the job, else for the first rule."""
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
    seen: _Seen, training: RunningTraining, stopped_at: float | None, storage: Any
) -> float | None:
    """Milliseconds from the bad step's index file in the bucket to the call that stops the job."""
    stops = {action["DedupId"] for action in seen.actions if action["Action"] == "stop"}
    alert = next((it for it in seen.statuses if it["DedupId"] in stops), None)
    if alert is None or stopped_at is None:
        return None
    written = written_at(storage, alert["Step"], alert["Worker"])
    return None if written is None else round(1000 * (stopped_at - written), 1)
