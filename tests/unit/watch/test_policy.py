from __future__ import annotations

from typing import Any

import pytest
from tocsin.events import NotifyPolicy
from tocsin.watch import Notify, Watch, faults, policy


@pytest.mark.parametrize(
    ("notify", "expected"),
    [
        (Notify(), NotifyPolicy()),
        (Notify("0s", "5m"), NotifyPolicy(0.0, 300.0)),
        (Notify("15m", "2d"), NotifyPolicy(900.0, 172_800.0)),
        (Notify("1.5m", "4h", send_resolved=False), NotifyPolicy(90.0, send_resolved=False)),
        (
            Notify(summary=("email", "email:ml@example.com", "sms", "webhook:ops")),
            NotifyPolicy(summary=("email", "email:ml@example.com", "sms", "webhook:ops")),
        ),
    ],
)
def test_in_numbers(notify: Notify, expected: NotifyPolicy) -> None:
    assert policy(notify) == expected
    assert list(faults(Watch(notify=notify))) == []


WAIT = "is not a time from 0s to 15m, such as 10s"
REPEAT = "is not a time from 5m to 365d, such as 4h"


@pytest.mark.parametrize(
    ("notify", "text"),
    [
        ({"group_wait": "901s"}, f"notify.group_wait: '901s' {WAIT}"),
        ({"group_wait": 10}, f"notify.group_wait: 10 {WAIT}"),
        ({"repeat_interval": 0}, f"notify.repeat_interval: 0 {REPEAT}"),
        ({"repeat_interval": "0s"}, f"notify.repeat_interval: '0s' {REPEAT}"),
        ({"repeat_interval": "299s"}, f"notify.repeat_interval: '299s' {REPEAT}"),
        ({"repeat_interval": "366d"}, f"notify.repeat_interval: '366d' {REPEAT}"),
        ({"repeat_interval": "9" * 400 + "d"}, "notify.repeat_interval: '999"),
        (
            {"summary": ("stop",)},
            "notify.summary[0]: 'stop' sends no notification: use one of email, sms, webhook",
        ),
        ({"summary": ("metric:x",)}, "notify.summary[0]: 'metric:x' sends no notification"),
        ({"summary": ("emial",)}, "notify.summary[0]: unknown action 'emial'"),
    ],
)
def test_the_default_replaces_what_is_not_valid(notify: dict[str, Any], text: str) -> None:
    (fault,) = faults(Watch(notify=Notify(**notify)))
    assert str(fault).startswith(text)
    assert len(str(fault)) < 200
    assert policy(Notify(**notify)) == NotifyPolicy()
