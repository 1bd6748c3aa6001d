from __future__ import annotations

import pytest
from tocsin.alerts.aws import Settings
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
    settings = Settings.read(GOOD)
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
    settings = Settings.read({**GOOD, **{f"TOCSIN_{name}": text for name in names}})
    found = (settings.emails, settings.phones, settings.allowed_recipients, settings.webhooks)
    assert found == (expected,) * 4


def test_the_stop_guard() -> None:
    settings = Settings.read({**GOOD, "TOCSIN_STOP_GUARD": "1/90s"})
    assert settings.stop_limit == StopLimit(1, 90.0)


def test_numbers_are_read_from_text() -> None:
    assert Settings.read({**GOOD, "TOCSIN_SMS_MONTHLY_CAP": "0"}).sms_monthly_cap == 0


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
        Settings.read(wrong)
