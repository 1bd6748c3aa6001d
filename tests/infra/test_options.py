from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin_cdk.options import DeploymentOptions, OptionError, read_options


def test_without_context_every_option_has_its_default() -> None:
    assert read_options({}) == DeploymentOptions()


MEMBER = "arn:aws:iam::111122223333:role/TocsinMember"
OTHER = "arn:aws:iam::444455556666:role/TocsinMember"


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("captureBucket", "our.runs-1", "capture_bucket", "our.runs-1"),
        ("captureBucket", "", "capture_bucket", None),
        ("capturePrefix", "team/jobs", "capture_prefix", "team/jobs/"),
        ("capturePrefix", "/team/", "capture_prefix", "team/"),
        ("capturePrefix", "/", "capture_prefix", ""),
        ("emails", "a@example.com", "emails", ("a@example.com",)),
        ("emails", "a@example.com, b@example.com,", "emails", ("a@example.com", "b@example.com")),
        ("emails", '["a@example.com"]', "emails", ("a@example.com",)),
        ("emails", ["a@example.com", "a@example.com"], "emails", ("a@example.com",)),
        ("emails", [], "emails", ()),
        ("phones", "+15551230000", "phones", ("+15551230000",)),
        (
            "allowedRecipients",
            "*@example.com,+15551230000,a@example.com",
            "allowed_recipients",
            ("*@example.com", "+15551230000", "a@example.com"),
        ),
        ("alarmEmails", "a@example.com", "alarm_emails", ("a@example.com",)),
        ("webhooks", "oncall-slack, 2.b_c", "webhooks", ("oncall-slack", "2.b_c")),
        ("smsMonthlyCap", 0, "sms_monthly_cap", 0),
        ("smsMonthlyCap", "0", "sms_monthly_cap", 0),
        ("smsMonthlyCap", 100_000, "sms_monthly_cap", 100_000),
        ("stopGuard", "1000/24h", "stop_guard", "1000/24h"),
        ("stopCeiling", "50/10m", "stop_ceiling", "50/10m"),
        ("smsRunCap", "0", "sms_run_cap", 0),
        ("emailRunCap", 20, "email_run_cap", 20),
        ("metricRunCap", "30", "metric_run_cap", 30),
        ("watchFile", "pyproject.toml", "watch_file", Path.cwd() / "pyproject.toml"),
        ("architecture", "x86_64", "architecture", "x86_64"),
        ("jobMetrics", False, "job_metrics", False),
        ("jobMetrics", "False", "job_metrics", False),
        ("retainDays", "30", "retain_days", 30),
        ("retainDays", 365, "retain_days", 365),
        ("emails", None, "emails", ()),
        ("stage", "dev-2", "stage", "dev-2"),
        ("tags", "a=b=c, d=e", "tags", {"a": "b=c", "d": "e"}),
        (
            "concurrency",
            "evaluate=20",
            "concurrency",
            {"evaluate": 20, "act": 2, "report": 2, "replay": 1},
        ),
        (
            "memory",
            {"act": 1024, "evaluate": 2048},
            "memory",
            {
                "evaluate": 2048,
                "act": 1024,
                "patrol": 256,
                "report": 1769,
                "replay": 1769,
                "relaunch": 256,
            },
        ),
        (
            "memberRoles",
            "arn:aws:iam::111122223333:role/ml/TocsinMember",
            "member_roles",
            {"arn:aws:iam::111122223333:role/ml/TocsinMember": ("111122223333/",)},
        ),
        (
            "memberRoles",
            f"{MEMBER}=speech,{MEMBER}=/audio/lab/=x,{OTHER}",
            "member_roles",
            {MEMBER: ("speech/", "audio/lab/=x/"), OTHER: ("444455556666/",)},
        ),
        (
            "memberRoles",
            {MEMBER: ["speech", "audio", "speech"], OTHER: "vision"},
            "member_roles",
            {MEMBER: ("speech/", "audio/"), OTHER: ("vision/",)},
        ),
        ("prices", "ml.g5.xlarge=1.41", "prices", {"ml.g5.xlarge": 1.41}),
        ("prices", {"ml.p4d.24xlarge": 37.69}, "prices", {"ml.p4d.24xlarge": 37.69}),
    ],
)
def test_reads_json_values_and_text(key: str, value: Any, field: str, expected: Any) -> None:
    assert getattr(read_options({key: value}), field) == expected


@pytest.mark.parametrize(
    ("key", "value", "valid"),
    [
        ("captureBucket", "s3://bucket", "a bucket's name"),
        ("captureBucket", 7, "a bucket's name"),
        ("capturePrefix", "team/*", "of ASCII letters, digits and"),
        ("capturePrefix", "a//b", "without empty parts"),
        ("capturePrefix", "${aws:username}", "of ASCII letters, digits and"),
        ("capturePrefix", "our runs", "of ASCII letters, digits and"),
        ("capturePrefix", "läufe", "of ASCII letters, digits and"),
        ("captureKeyArn", "arn:aws:kms:eu-west-1:111122223333:alias/mine", "not of an alias"),
        ("emails", "a@example.com,*@example.com", "'*@example.com' is not an e-mail address"),
        ("emails", "a..b@example.com", "two periods"),
        ("alarmEmails", "+15551230000", "'+15551230000' is not an e-mail address"),
        ("alarmEmails", "*@example.com", "'*@example.com' is not an e-mail address"),
        ("emails", '["a@example.com"', "a list of texts like ml-oncall@example.com"),
        ("emails", {"to": "a@example.com"}, "a list"),
        ("emails", [7], "has the item 7, but must be a list of texts"),
        ("phones", "a@example.com", "'a@example.com' is not a phone number"),
        ("phones", 15551230000, "a list of texts like +15551230000"),
        ("allowedRecipients", "*", "'*' is not a phone number"),
        ("allowedRecipients", "*@-b.example.com", "(write it like *@example.com)"),
        ("allowedRecipients", "*@*.example.com", "(write it like *@example.com)"),
        ("allowedRecipients", "a*@example.com", "'a*@example.com' is not an e-mail address"),
        ("webhooks", "ops,https://example.com/hook", "is not a webhook's name"),
        ("smsMonthlyCap", -1, "from 0 to 100000"),
        ("smsMonthlyCap", "100001", "from 0 to 100000"),
        ("smsMonthlyCap", True, "from 0 to 100000"),
        ("smsMonthlyCap", 1.5, "from 0 to 100000"),
        ("smsMonthlyCap", "²", "from 0 to 100000"),
        ("stopGuard", 10, "10 is not a stop limit"),
        ("stopCeiling", "many", "'many' is not a stop limit"),
        ("emailRunCap", -1, "from 0 to 100000"),
        ("stopGuard", "10/25h", "'10/25h' is not a stop limit"),
        ("watchFile", "no/such/file.yaml", "a file that exists"),
        ("watchFile", 7, "a file that exists"),
        ("architecture", "ARM64", "arm64 or x86_64"),
        ("jobMetrics", "yes", "true or false"),
        ("jobMetrics", 1, "true or false"),
        ("retainDays", 31, "one of (1, 3, 5"),
        ("retainDays", "forever", "one of (1, 3, 5"),
        ("retainDays", True, "one of (1, 3, 5"),
        ("retainDays", "²", "one of (1, 3, 5"),
        ("stage", "Dev", "a name like dev"),
        ("stage", "a" * 21, "at most 20"),
        ("tags", "team", "a list like team=vision"),
        ("tags", {"aws:team": "vision"}, "not begin with aws:"),
        ("tags", {"team": 7}, "text of at most 256"),
        ("concurrency", "evaluate=1", "of evaluate must be from 2 to 1000"),
        ("concurrency", "patrol=2", "its functions are evaluate, act, report"),
        ("concurrency", 7, "a list like evaluate=5,act=2,report=2"),
        ("memory", {"evaluate": 511}, "of evaluate must be from 512 to 10240 MB"),
        ("memory", "act=1e3", "of act must be from 256 to 10240 MB"),
        ("memberRoles", "arn:aws:iam::1:user/x", "is not the ARN of a role"),
        (
            "memberRoles",
            3,
            "a list of texts like arn:aws:iam::111122223333:role/TocsinMember=speech",
        ),
        ("memberRoles", {MEMBER: "a b"}, "a path like team/runs"),
        ("memberRoles", {MEMBER: "/"}, "the whole bucket"),
        ("memberRoles", {MEMBER: "a", OTHER: "a/b"}, "they overlap"),
        ("memberRoles", {MEMBER: "a", OTHER: "a"}, "they overlap"),
        ("memberRoles", f"{MEMBER}=a,{MEMBER}2=b", "two roles of one account"),
        ("prices", "ml.g5.xlarge=free", "types of instances at US dollars per hour"),
        ("prices", {"ml.g5.xlarge": -1}, "types of instances at US dollars per hour"),
        ("prices", {"ml.g5.xlarge": "nan"}, "types of instances at US dollars per hour"),
        ("prices", "g5=1", "has 'g5' at '1'"),
        ("prices", {f"ml.t{each}.large": 1 for each in range(51)}, "of at most 50"),
        ("tocsin:layerRuntime", "docker", "lambda or local"),
    ],
)
def test_a_wrong_value_says_what_where_and_what_is_valid(key: str, value: Any, valid: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_options({key: value})
    message = str(caught.value)
    assert message.startswith(f"option {key} ")
    assert valid in message
    assert f"-c {key}=" in message
    assert "\n" not in message


def test_whom_rules_may_name_are_those_allowed_and_those_who_are_told_anyhow() -> None:
    context = {"emails": "a@example.com", "phones": "+15551230000", "alarmEmails": "c@example.com"}
    options = read_options(context | {"allowedRecipients": "*@example.com"})
    assert options.recipients == ("*@example.com", "a@example.com", "+15551230000")


def test_more_recipients_than_an_environment_holds_are_refused() -> None:
    many = [f"somebody-{n}@example.com" for n in range(130)]
    with pytest.raises(OptionError, match="3000: use a mailing list") as caught:
        read_options({"emails": many})
    assert "\n" not in str(caught.value)
    assert len(read_options({"emails": many[:100]}).emails) == 100


def test_a_misspelt_option_is_not_ignored() -> None:
    with pytest.raises(OptionError, match=r"unknown option email in CDK context: .* emails"):
        read_options({"email": "a@example.com"})


def test_what_belongs_to_others_is_left_alone() -> None:
    others = {"@aws-cdk/core:emails": True, "aws:cdk:emails": [], "colour": "blue"}
    assert read_options(others) == DeploymentOptions()


def test_a_local_layer_needs_its_interpreter() -> None:
    python = {"tocsin:localPython": sys.executable}
    local = {"tocsin:layerRuntime": "local"}
    assert read_options(python | local).local_python == Path(sys.executable)
    for half in (python, local, python | {"tocsin:layerRuntime": "lambda"}):
        with pytest.raises(OptionError, match="go together"):
            read_options(half)
