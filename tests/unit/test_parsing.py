"""Values that people write as text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.parsing import (
    StopLimit,
    email_fault,
    job_name_fault,
    list_items,
    metric_name_fault,
    moment,
    phone_fault,
    seconds,
    stop_limit,
    webhook_name_fault,
)

email_form_fault = partial(email_fault, form_only=True)

TIMES = {
    "0s": 0.0,
    "007s": 7.0,
    "1.5s": 1.5,
    "2m": 120.0,
    "1.5m": 90.0,
    "1h": 3600.0,
    "2d": 172_800.0,
}
TIMES |= {"0.0000000001d": 0.00000864, "1234567890s": 1_234_567_890.0}
NOT_TIMES = ["", " 5s", "5 s", "5s\n", "9" * 400 + "s", "9" * 305 + "d", 30, None, ["1s"]]
NOT_TIMES += ["30", "s", "-1s", "+1s", "1.s", ".5s", "1e3s", "1,5s", "5S", "5us", "3w", "1h30m"]
NOT_TIMES += ["²s", "٣h"]


MOMENTS = {
    "2026-12-01T08:00Z": "2026-12-01T08:00:00+00:00",
    "2026-12-01t08:00:00.5z": "2026-12-01T08:00:00.500000+00:00",
    "2026-12-01 08:00:00.500000-02:00": "2026-12-01T10:00:00.500000+00:00",
}
NOT_MOMENTS = ["", "Z", "soon", "2026-12-01", "2026-12-01T08:00:00", "2026-12-01T25:00Z", 0, None]
NOT_MOMENTS += ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "2026-12-01T08:00Z\n"]


@pytest.mark.parametrize(
    ("value", "expected"), [*MOMENTS.items(), *((each, None) for each in NOT_MOMENTS)]
)
def test_moment(value: Any, expected: str | None) -> None:
    found = moment(value)
    assert (found and found.isoformat()) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [*TIMES.items(), *((each, None) for each in NOT_TIMES)]
)
def test_seconds(value: Any, expected: float | None) -> None:
    assert seconds(value) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("text", "most", "length"),
    [
        ("10/10m", 10, 600.0),
        ("1/1m", 1, 60.0),
        ("1/60s", 1, 60.0),
        ("3/1.5h", 3, 5400.0),
        ("5/1440m", 5, 86_400.0),
        ("1000/24h", 1000, 86_400.0),
        ("1000/1d", 1000, 86_400.0),
    ],
)
def test_stop_limit(text: str, most: int, length: float) -> None:
    assert stop_limit(text) == StopLimit(most, length)


NOT_STOP_LIMITS = ["", "10 / 10m", "10/10m\n", "10/\n10m", "x" * 1000, 10, None, ["10/10m"]]
NOT_STOP_LIMITS += ["10", "10/", "/10m", "10/10", "10/10w", "10/10m/1h", "1.5/10m", "٣/10m"]
NOT_STOP_LIMITS += ["0/10m", "-1/10m", "010/10m", "1001/10m", "99999/10m"]
NOT_STOP_LIMITS += ["10/0m", "10/59s", "10/86401s", "10/1441m", "10/25h", "10/2d"]


@pytest.mark.parametrize("value", NOT_STOP_LIMITS)
def test_not_a_stop_limit(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r" is not a stop limit: write runs per time, 1 to "
    ) as said:
        stop_limit(value)
    assert str(said.value).endswith("1000 in 1m to 24h, like 10/10m")
    assert_one_line(str(said.value))


EMAILS = "ml-oncall@example.com a.b@c-d.co.uk First.Last+tag@Example.COM a@example.c"
EMAILS += " o'neil_1@sub.example.com a@xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        (phone_fault, ["+1555123", "+15551230000", "+155512300001234", "+442079460000"]),
        (email_fault, EMAILS.split()),
        (email_form_fault, EMAILS.split()),
        (webhook_name_fault, ["oncall-slack", "2.b_c", "A", "a" * 64]),
        (metric_name_fault, ["loss", "Loss of the (first) head", "a:b c", "!", "x" * 255]),
        (job_name_fault, ["j", "J1", "a--b", "0", "j" * 63]),
    ],
)
def test_valid(fault: Callable[[str], str | None], texts: list[str]) -> None:
    assert [fault(text) for text in texts] == [None] * len(texts)


NOT_PHONES = ["", "+1 555 123 0000", " +15551230000", "+15551230000\n", "x" * 1000]
NOT_PHONES += ["15551230000", "0155512", "+", "+05551230000", "+155512", "+1-555-1230000"]
NOT_PHONES += ["+1555123000012345", "+15551230000,+15551230001", "+١٥٥٥١٢٣٠٠٠٠", "+1٥٥٥1230000"]
NOT_WEBHOOKS = [
    "",
    "a b",
    "a\n",
    "a" * 65,
    ".x",
    "-a",
    "_a",
    "a/b",
    "ä",
    "https://example.com/hook",
]
NOT_METRICS = ["", ":x", " x", "a\nb", "x\n", "Verlust ä", "x" * 256]
NOT_JOBS = ["", "j\n", "j" * 64, "-" * 1000, None, 7, "-j", "j-", "../j", "a_b", "a.b", "ü"]


@pytest.mark.parametrize(
    ("fault", "values", "valid"),
    [
        (phone_fault, NOT_PHONES, " is not a phone number: write + and the country code, "),
        (webhook_name_fault, NOT_WEBHOOKS, " is not a webhook's name: write a letter or digit, "),
        (metric_name_fault, NOT_METRICS, " is not a metric name: write 1 to 255 printable ASCII "),
        (job_name_fault, NOT_JOBS, " is not a training job's name: write 1 to 63 letters, "),
    ],
)
def test_not_valid(fault: Callable[[Any], str | None], values: list[Any], valid: str) -> None:
    for value in values:
        assert valid in (fault(value) or "")
        assert_one_line(fault(value) or "")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "must have an @-sign"),
        ("nobody", "must have an @-sign"),
        ("first.last@", "something after the @-sign"),
        ("@example.com", "something before the @-sign"),
        ("a@localhost", "period"),
        ("a@example.", "period"),
        ("a@example.com.", "period"),
        ("Me <a@example.com>", "angle brackets"),
        ("a@example.com,b@example.com", "invalid characters"),
        ("a@example.com;b@example.com", "invalid characters"),
        ("a@example.com\nBcc: b@example.com", "invalid characters"),
        (" a@example.com", "invalid characters"),
        ("a@b@example.com", "@"),
        ("*@example.com", "no space, comma or *"),
        ("a*b@example.com", "no space, comma or *"),
    ],
)
def test_not_an_email_address(address: str, reason: str) -> None:
    for fault in (email_fault(address), email_form_fault(address)):
        assert fault is not None
        assert " is not an e-mail address: " in fault
        assert fault.endswith("(write it like ml-oncall@example.com)")
        assert_one_line(fault)
    assert reason in str(email_fault(address))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("a..b@example.com", "two periods"),
        ("a@host.local", "special-use"),
        ("a@[10.0.0.1]", "bracketed IP"),
        ("a@-b.example.com", "hyphen"),
        ("a@bücher.example", "xn--"),
        ("a" * 65 + "@example.com", "too long"),
        ("a@" + "b." * 200 + "com", "more than 320 characters"),
    ],
)
def test_the_form_of_an_address_alone_finds_less(address: str, reason: str) -> None:
    assert reason in str(email_fault(address))
    assert email_form_fault(address) is None


@given(st.emails() | st.text(alphabet='aA.+@-[]"\\ \n\x00é1*,;<', max_size=30))
def test_an_email_address_has_its_form_and_is_plain(address: str) -> None:
    if email_fault(address) is None:
        assert email_form_fault(address) is None
        assert address.count("@") == 1
        assert address.isascii()
        assert address.isprintable()
        assert " " not in address


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (",", []),
        ("a, b,", ["a", "b"]),
        (' ["a", "b, c"]', ["a", "b, c"]),
        ("[]", []),
        ("[7]", [7]),
        (["a", 7], ["a", 7]),
        ('["a"', None),
        ("[" * 100_000, None),
        (7, None),
        (None, None),
        ({"a": 1}, None),
    ],
)
def test_list_items(value: Any, expected: list[Any] | None) -> None:
    assert list_items(value) == expected


@given(st.text())
def test_any_text_is_answered_in_one_line(text: str) -> None:
    for fault in (phone_fault, email_fault, webhook_name_fault, metric_name_fault, job_name_fault):
        assert_one_line(fault(text) or "")


def assert_one_line(fault: str) -> None:
    assert len(fault.splitlines()) <= 1
    assert len(fault) < 400
