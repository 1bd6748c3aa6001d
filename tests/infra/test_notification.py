"""Notification in the template: topics, alarms, the dashboard, permissions of act."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tocsin.aws.settings import ActSettings
from tocsin.parsing import StopLimit
from tocsin_cdk.option_parsers import OptionError

from .conftest import listed, synthesise

if TYPE_CHECKING:
    from .conftest import Synthesised


ROOT = Path(__file__).parents[2]


def topic_of(reference: Any) -> str:
    """The construct that a topic's ARN belongs to."""
    text = json.dumps(reference)
    (name,) = [name for name in ("Alerts", "Alarms", "Health") if f"Topics{name}" in text]
    return name


def test_people_get_what_is_meant_for_them(own: Synthesised) -> None:
    subscriptions = {
        (one["Protocol"], one["Endpoint"], topic_of(one["TopicArn"])): one.get("FilterPolicy")
        for one in own.all("SNS::Subscription").values()
    }
    assert subscriptions == {
        ("email", "ops@example.com", "Alerts"): {"action": ["email:ops@example.com"]},
        ("sms", "+15551230000", "Alerts"): {"action": ["sms:+15551230000"]},
        ("email", "ops@example.com", "Health"): None,
        ("email", "cloudwatch@example.com", "Alarms"): None,
    }


def test_only_the_alarm_on_issues_goes_to_those_who_live_in_cloudwatch(own: Synthesised) -> None:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for alarm in own.all("CloudWatch::Alarm").values():
        (action,) = alarm["AlarmActions"]
        by_topic.setdefault(topic_of(action), []).append(alarm)
        assert "InsufficientDataActions" not in alarm
    assert {topic: len(alarms) for topic, alarms in by_topic.items()} == {"Alarms": 1, "Health": 25}
    for alarm in by_topic["Health"]:
        assert alarm["OKActions"] == alarm["AlarmActions"]
    (alarm,) = by_topic["Alarms"]
    told = ("AlarmActions", "AlarmDescription")
    assert {name: value for name, value in alarm.items() if name not in told} == {
        "Namespace": "Tocsin",
        "MetricName": "IssuesFound",
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "notBreaching",
    }
    assert topic_of(own.template["Outputs"]["AlarmTopicArn"]["Value"]) == "Alarms"


def test_each_alarm_names_the_section_that_says_what_to_do(own: Synthesised) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    sections = {heading.lower().replace(" ", "-") for heading in re.findall(r"(?m)^## (.+)$", page)}
    named = set()
    for alarm in own.all("CloudWatch::Alarm").values():
        if topic_of(alarm["AlarmActions"]) == "Health":
            named.add(alarm["AlarmDescription"].partition("docs/operations.md#")[2])
    assert named <= sections
    assert len(named) == 11


@pytest.mark.parametrize(
    ("alarm", "metric", "statistic", "threshold"),
    [
        ("EvaluateWaiting", "ApproximateAgeOfOldestMessage", "Maximum", 300),
        ("ActWaiting", "ApproximateAgeOfOldestMessage", "Maximum", 300),
        ("Loop", "Invocations", "Sum", 7500),
    ],
)
def test_overload_is_an_alarm(
    own: Synthesised, alarm: str, metric: str, statistic: str, threshold: int
) -> None:
    found = own.one("CloudWatch::Alarm", f"Monitoring{alarm}")
    assert (found["MetricName"], found["Statistic"]) == (metric, statistic)
    assert found["Threshold"] == threshold


def test_a_lag_is_an_alarm(own: Synthesised) -> None:
    found = own.one("CloudWatch::Alarm", "MonitoringLag")
    assert (found["Namespace"], found["MetricName"]) == ("Tocsin", "EvaluationLag")
    assert (found["ExtendedStatistic"], found["Threshold"]) == ("p95", 60_000)


@pytest.mark.parametrize(("alarm", "dimensions"), [("Table", 1), ("Index", 2)])
@pytest.mark.parametrize("verb", ["Read", "Write"])
def test_throttles_of_the_table_and_of_its_index_are_alarms(
    own: Synthesised, alarm: str, dimensions: int, verb: str
) -> None:
    found = own.one("CloudWatch::Alarm", f"Monitoring{alarm}{verb}Throttles")
    assert found["MetricName"] == f"{verb}ThrottleEvents"
    assert len(found["Dimensions"]) == dimensions


def test_a_stop_that_the_guard_refused_is_an_alarm(own: Synthesised) -> None:
    alarm = own.one("CloudWatch::Alarm", "StopGuard")
    assert (alarm["Namespace"], alarm["MetricName"]) == ("Tocsin", "StopGuardTripped")
    assert (alarm["Statistic"], alarm["Threshold"]) == ("Sum", 1)
    assert "Dimensions" not in alarm  # as act writes it
    assert topic_of(alarm["AlarmActions"]) == "Health"


def test_a_run_that_cannot_be_watched_is_an_alarm_until_an_hour_after(own: Synthesised) -> None:
    alarm = own.one("CloudWatch::Alarm", "NotWatched")
    assert (alarm["Namespace"], alarm["MetricName"]) == ("Tocsin", "RunsNotWatched")
    assert (alarm["Statistic"], alarm["Threshold"], alarm["Period"]) == ("Sum", 1, 3600)


def test_act_publishes_to_phones_and_to_no_other_topic(own: Synthesised) -> None:
    publishing = [
        one for one in own.statements("ActRole") if "sns:Publish" in listed(one["Action"])
    ]
    (phones,) = [one for one in publishing if "NotResource" in one]
    assert phones["NotResource"]["Fn::Join"][1][-1] == ":sns:*:*:*"
    assert "Resource" not in phones


@pytest.mark.parametrize("action", ["Publish", "Subscribe", "ListSubscriptionsByTopic"])
def test_act_reaches_the_topic_of_alerts_only(own: Synthesised, action: str) -> None:
    (topic,) = own.resources("ActRole", f"sns:{action}")
    assert topic_of(topic) == "Alerts"


@pytest.mark.parametrize(
    ("policy", "queues"),
    [("ActRole", {"ActionsWorkQueue"}), ("PatrolRole", {"ActionsWorkQueue", "EvaluateWorkQueue"})],
)
def test_messages_go_to_these_queues(own: Synthesised, policy: str, queues: set[str]) -> None:
    found = [json.loads(one)["Fn::GetAtt"][0] for one in own.resources(policy, "sqs:SendMessage")]
    assert {name[:-8] for name in found} == queues  # without the hash


@pytest.mark.parametrize("kind", ["own", "existing"])
def test_act_can_read_its_environment(request: pytest.FixtureRequest, kind: str) -> None:
    variables = request.getfixturevalue(kind).variables("ActFunction")
    known = {name: text for name, text in variables.items() if isinstance(text, str)}
    later = dict.fromkeys(variables.keys() - known.keys(), "arn:aws:sns:known:at:deployment")
    settings = ActSettings.read(known | later)
    own = kind == "own"
    assert settings.webhooks == (("oncall-slack", "pager") if own else ())
    assert settings.sms_monthly_cap == (0 if own else 100)
    assert settings.stop_limit == (StopLimit(3, 3600.0) if own else StopLimit(10, 600.0))


@pytest.mark.parametrize("action", ["email:a@example.org", "webhook:nobody"])
def test_a_watch_file_that_tells_somebody_else_is_not_deployed(tmp_path: Path, action: str) -> None:
    watch_file = tmp_path / "watch.json"
    watch_file.write_text(json.dumps({"rules": ["Overfit"], "actions": [action]}))
    context = {"watchFile": str(watch_file), "emails": "a@example.com", "webhooks": "pager"}
    with pytest.raises(OptionError, match=action.partition(":")[2]):
        synthesise(tmp_path / "out", context)


def test_act_sends_to_the_queue_that_it_works_off(own: Synthesised) -> None:
    queue = own.variables("ActFunction")["TOCSIN_ACT_QUEUE_URL"]["Ref"]
    consumed = {
        one["FunctionName"]["Ref"]: one["EventSourceArn"]["Fn::GetAtt"][0]
        for one in own.all("Lambda::EventSourceMapping").values()
    }
    (act,) = [name for name in consumed if "ActFunction" in name]
    assert consumed[act] == queue
    assert own.variables("PatrolFunction")["TOCSIN_ACT_QUEUE_URL"] == {"Ref": queue}


def test_act_reaches_one_table_and_no_index_of_it(own: Synthesised) -> None:
    (table,) = own.all("DynamoDB::Table")
    for verb in ("Get", "Put", "Update"):
        found = own.resources("ActRole", f"dynamodb:{verb}Item")
        assert found == {json.dumps({"Fn::GetAtt": [table, "Arn"]})}


def test_act_reads_the_secrets_of_the_named_webhooks_only(
    own: Synthesised, existing: Synthesised
) -> None:
    ends = {
        json.loads(one)["Fn::Join"][1][-1] for one in own.resources("ActRole", "ssm:GetParameter")
    }
    assert ends == {
        ":parameter/tocsin/webhooks/oncall-slack",
        ":parameter/tocsin/webhooks/pager",
    }
    assert not existing.resources("ActRole", "ssm:GetParameter")


def test_messages_refer_to_the_dashboard_by_its_name(own: Synthesised) -> None:
    (dashboard,) = own.all("CloudWatch::Dashboard").values()
    region = {"Ref": "AWS::Region"}
    assert dashboard["DashboardName"] == {"Fn::Join": ["", ["Tocsin-", region]]}
    assert own.template["Outputs"]["DashboardName"]["Value"] == dashboard["DashboardName"]
    url = own.variables("ActFunction")["TOCSIN_DASHBOARD"]
    assert url["Fn::Join"][1] == [
        "https://",
        region,
        ".console.aws.amazon.com/cloudwatch/home?region=",
        region,
        "#dashboards/dashboard/Tocsin-",
        region,
    ]


@pytest.mark.parametrize("metric", ["AlertsSent", "AlertsHeld"])
def test_the_dashboard_shows_why_alerts_were_sent_or_held(own: Synthesised, metric: str) -> None:
    (dashboard,) = own.all("CloudWatch::Dashboard").values()
    text = json.dumps(dashboard["DashboardBody"])
    assert "{Tocsin,Reason} MetricName=" in text
    assert metric in text


def test_the_dashboard_shows_runs_alarms_and_what_costs(own: Synthesised) -> None:
    (dashboard,) = own.all("CloudWatch::Dashboard").values()
    text = json.dumps(dashboard["DashboardBody"])
    for part in ("custom", "alarm", "text"):
        assert f'\\"type\\":\\"{part}\\"' in text
    (function,) = (name for name in own.all("Lambda::Function") if "Fleet" in name)
    assert json.dumps({"Fn::GetAtt": [function, "Arn"]}) in text
    for alarm in own.all("CloudWatch::Alarm"):
        assert json.dumps({"Fn::GetAtt": [alarm, "Arn"]}) in text
    for cost in ("Duration", "ConsumedWriteCapacityUnits", "PutMetricData"):
        assert cost in text


def test_a_viewer_can_choose_a_job_that_has_metrics(
    own: Synthesised, existing: Synthesised
) -> None:
    """The variable, and the graph that it changes; with ``jobMetrics``, which ``own`` has not."""
    for stack, times in ((own, 0), (existing, 2)):
        (dashboard,) = stack.all("CloudWatch::Dashboard").values()
        assert json.dumps(dashboard["DashboardBody"]).count("any-training-job") == times
