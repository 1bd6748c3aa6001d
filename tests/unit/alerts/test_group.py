"""What is remembered comes back as it was, and nothing else is believed."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tocsin.actions import ActionOutcome
from tocsin.alerts import AlertGroup, LogEntry, RuleAlert, Sent, Task, alerts_document
from tocsin.alerts import decode_group as decode
from tocsin.alerts import encode_group as encode
from tocsin.alerts.group import MOST_BYTES, VERSION

from tests.unit.alerts.world import EPOCH, RUN, alert

GROUP = AlertGroup(
    RUN,
    "j1",
    alerts={"A": RuleAlert(alert("A", Silences=[{"Until": "2030-01-01T00:00:00Z"}]), EPOCH)},
    sent={"email": Sent({"A": "d"}, EPOCH)},
    held={"sms|A": "silenced"},
    tasks=(Task("email#0", "email", "fired", ("A",), dedup_ids={"A": "d"}),),
    log=(
        LogEntry(
            EPOCH, "A", "send", "first_notification", "email", ActionOutcome.DONE, "published"
        ),
    ),
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


def test_one_of_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match=f"it has version {VERSION + 1}"):
        decode(encode(replace(GROUP, version=VERSION + 1)))


STATE = Path(__file__).parents[2] / "fixtures" / "state"
OLD = STATE / "group-1.zlib"


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_what_each_version_wrote_is_read(version: int) -> None:
    """From files: a new version needs one of its own."""
    file = STATE / f"group-{version}.zlib"
    found = msgspec.to_builtins(decode(file.read_bytes()))
    assert contains(found, json.loads(file.with_suffix(".json").read_text()))


def test_what_an_earlier_version_wrote_is_read() -> None:
    group = decode(OLD.read_bytes())
    assert contains(msgspec.to_builtins(group), json.loads(OLD.with_suffix(".json").read_text()))
    assert [task.outcome for task in group.tasks] == [ActionOutcome.DONE, None]
    assert group.summary is not None
    assert group.alerts["small"].alert.firing
    assert decode(encode(group)) == group


GONE = {"resolved", "handed"}  # of ``sent``, and of a task that has failed


def contains(new: Any, old: Any) -> bool:
    """Whether all that the old JSON says is in the new."""
    match old:
        case dict():
            return all(
                key in GONE - new.keys() or contains(new[key], value) for key, value in old.items()
            )
        case list():
            return len(new) == len(old) and all(map(contains, new, old))
    return bool(new == old)


def test_the_log_in_the_words_of_the_interface() -> None:
    hold = LogEntry(EPOCH, "B", "hold", "silenced", "email", detail="s1")
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
