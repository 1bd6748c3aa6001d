from __future__ import annotations

import subprocess
import sys

import pytest
from tocsin.aws.settings import (
    ActSettings,
    EvaluateSettings,
    FunctionSettings,
    PatrolSettings,
)
from tocsin.parsing import StopLimit

GOOD = {
    "TOCSIN_TABLE": "table",
    "TOCSIN_BUS": "tocsin",
    "TOCSIN_TOPIC_ARN": "arn:aws-cn:sns:cn-north-1:111122223333:alerts",
    "TOCSIN_STATE_BUCKET": "state",
    "TOCSIN_ACT_QUEUE_URL": "https://sqs/act",
    "PATH": "/bin",
}


def test_defaults() -> None:
    settings = ActSettings.read(GOOD)
    assert (settings.emails, settings.phones, settings.webhooks) == ((), (), ())
    assert (settings.sms_monthly_cap, settings.stop_limit) == (100, StopLimit(10, 600.0))
    assert settings.dashboard == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (",", ()),
        ("a@example.com", ("a@example.com",)),
        ("+15551230000,*@example.org, B.c@d.uk", ("+15551230000", "*@example.org", "B.c@d.uk")),
    ],
)
def test_lists_are_written_with_commas(text: str, expected: tuple[str, ...]) -> None:
    names = ("EMAILS", "PHONES", "ALLOWED_RECIPIENTS", "WEBHOOKS")
    settings = ActSettings.read({**GOOD, **{f"TOCSIN_{name}": text for name in names}})
    found = (settings.emails, settings.phones, settings.allowed_recipients, settings.webhooks)
    assert found == (expected,) * 4


def test_the_stop_guard() -> None:
    settings = ActSettings.read({**GOOD, "TOCSIN_STOP_GUARD": "1/90s"})
    assert settings.stop_limit == StopLimit(1, 90.0)


def test_numbers_are_read_from_text() -> None:
    assert ActSettings.read({**GOOD, "TOCSIN_SMS_MONTHLY_CAP": "0"}).sms_monthly_cap == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"TOCSIN_TABLE": None}, "TOCSIN_TABLE"),
        ({"TOCSIN_BUS": ""}, "TOCSIN_BUS"),
        ({"TOCSIN_TOPIC_ARN": "alerts"}, "TOCSIN_TOPIC_ARN"),
        ({"TOCSIN_STATE_BUCKET": None}, "TOCSIN_STATE_BUCKET"),
        ({"TOCSIN_SMS_MONTHLY_CAP": "-1"}, "TOCSIN_SMS_MONTHLY_CAP"),
        ({"TOCSIN_SMS_MONTHLY_CAP": "many"}, "TOCSIN_SMS_MONTHLY_CAP"),
        ({"TOCSIN_STOP_GUARD": ""}, "TOCSIN_STOP_GUARD: '' is not a stop limit"),
        ({"TOCSIN_STOP_GUARD": "10/0m"}, "TOCSIN_STOP_GUARD: '10/0m' is not a stop limit"),
        ({"TOCSIN_EMAILS": "["}, "TOCSIN_EMAILS"),
    ],
)
def test_names_the_variable_that_is_wrong(change: dict[str, str | None], message: str) -> None:
    wrong = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        ActSettings.read(wrong)


EVALUATE = {
    "TOCSIN_TABLE": "t",
    "TOCSIN_STATE_BUCKET": "s",
    "TOCSIN_EVALUATE_QUEUE_URL": "u",
    "TOCSIN_BUS": "b",
    "TOCSIN_JOB_METRICS": "false",
}


def test_evaluate_reads_its_own() -> None:
    assert EvaluateSettings.read(EVALUATE).job_metrics is False
    for name in ("TOCSIN_TABLE", "TOCSIN_BUS"):
        with pytest.raises(ValueError, match=name):
            EvaluateSettings.read({key: text for key, text in EVALUATE.items() if key != name})
    with pytest.raises(ValueError, match=r"TOCSIN_JOB_METRICS|job_metrics"):
        EvaluateSettings.read({**EVALUATE, "TOCSIN_JOB_METRICS": "perhaps"})


@pytest.mark.parametrize(
    "settings",
    [
        EvaluateSettings("t", "s", "u", "b", job_metrics=False),
        EvaluateSettings("t", "s", "u", "b"),
        ActSettings("t", "b", "arn:aws:sns:x", "s", "q"),
        ActSettings(
            "t",
            "b",
            "arn:aws:sns:x",
            "s",
            "q",
            ("a@b.co", "c@d.co"),
            webhooks=("x",),
            stop_guard="1/1h",
        ),
        PatrolSettings("t", "e", "a"),
    ],
)
def test_what_the_stack_writes_is_what_the_function_reads(settings: FunctionSettings) -> None:
    variables = settings.variables()
    assert all(isinstance(text, str) for text in variables.values())
    assert type(settings).read(variables) == settings


def test_is_read_where_there_is_no_boto3() -> None:
    code = "import sys; import tocsin.aws.settings; sys.exit('boto3' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
