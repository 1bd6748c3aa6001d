from __future__ import annotations

import msgspec
import pytest
from tocsin.actions import Settings

GOOD = {
    "TOCSIN_TABLE": "table",
    "TOCSIN_BUS": "tocsin",
    "TOCSIN_TOPIC_ARN": "arn:aws-cn:sns:cn-north-1:111122223333:alerts",
    "PATH": "/bin",
}


@pytest.mark.parametrize(
    ("emails", "expected"), [({}, False), ("true", True), ("false", False), ("1", True)]
)
def test_reads_the_environment(emails: str, expected: bool) -> None:
    more = {"TOCSIN_EMAILS": emails} if emails else {}
    settings = Settings.read({**GOOD, **more})
    assert (settings.table, settings.bus, settings.emails) == ("table", "tocsin", expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"TOCSIN_TABLE": None}, "TOCSIN_TABLE"),
        ({"TOCSIN_BUS": ""}, "TOCSIN_BUS"),
        ({"TOCSIN_TOPIC_ARN": "alerts"}, "TOCSIN_TOPIC_ARN"),
        ({"TOCSIN_EMAILS": "a@example.com"}, "TOCSIN_EMAILS"),
    ],
)
def test_names_the_variable_that_is_wrong(change: dict[str, str | None], message: str) -> None:
    wrong = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(msgspec.ValidationError, match=message):
        Settings.read(wrong)
