"""What is remembered comes back as it was, and nothing else is believed."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from tocsin.actions import Outcome
from tocsin.alerts import Entry, Group, Noted, Sent, Task, alerts_document
from tocsin.alerts import decode_group as decode
from tocsin.alerts import encode_group as encode
from tocsin.alerts._group import MOST_BYTES

from tests.unit.alerts.world import EPOCH, RUN, alert

GROUP = Group(
    RUN,
    "j1",
    alerts={"A": Noted(alert("A", Silences=[{"Until": "2030-01-01T00:00:00Z"}]), EPOCH)},
    sent={"email": Sent({"A": "d"}, {}, EPOCH)},
    held={"sms|A": "silenced"},
    tasks=(Task("email#0", "email", "fired", ("A",), dedup_ids={"A": "d"}),),
    log=(Entry(EPOCH, "A", "send", "first_notification", "email", Outcome.DONE, "published"),),
    made=1,
    wake_at=EPOCH + 1,
)


def test_a_group_comes_back() -> None:
    assert decode(encode(GROUP)) == GROUP


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        zlib.compress(b"[]"),
        zlib.compress(b"{}"),
        encode(GROUP)[:-20],
        zlib.compress(b" " * (MOST_BYTES + 100)),
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a group of alerts"):
        decode(body)


def test_the_log_in_the_words_of_the_interface() -> None:
    hold = Entry(EPOCH, "B", "hold", "silenced", "email", detail="s1")
    assert alerts_document(replace(GROUP, log=(*GROUP.log, hold))) == [
        {
            "at": EPOCH,
            "RuleConfigurationName": "A",
            "decision": "send",
            "reason": "first_notification",
            "action": "email",
            "outcome": "done",
            "detail": "published",
        },
        {
            "at": EPOCH,
            "RuleConfigurationName": "B",
            "decision": "hold",
            "reason": "silenced",
            "action": "email",
            "outcome": None,
            "detail": "s1",
        },
    ]
