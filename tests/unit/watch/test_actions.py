"""The form of an action."""

from __future__ import annotations

import pytest
from tocsin.watch import action_fault
from tocsin.watch.actions import usable


@pytest.mark.parametrize(
    "action",
    [
        "stop",
        "email",
        "email:ml-oncall@example.com",
        "sms",
        "sms:+15551230000",
        "metric",
        "metric:loss",
        "webhook:chat-ops",
    ],
)
def test_valid(action):
    assert action_fault(action) is None


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("", "unknown action '': there are stop, relaunch, email, sms, metric, webhook"),
        ("Stop", "unknown action 'Stop': did you mean stop?"),
        ("emial:a@b.c", "did you mean email?"),
        ("stop:j1", "stop takes no argument"),
        ("stop:", "stop takes no argument"),
        ("email:", "'email:': '' is not an e-mail address"),
        ("email:*@example.com", "'*@example.com' is not an e-mail address"),
        ("sms:15551230000", "'15551230000' is not a phone number"),
        ("metric::x", "':x' is not a metric name"),
        ("webhook", "must name its endpoint: webhook:NAME"),
        ("webhook:https://example.com", "'https://example.com' is not a webhook's name"),
    ],
)
def test_not_valid(action, wrong):
    assert wrong in action_fault(action)


def test_only_usable_actions_are_taken_each_once():
    assert usable(("stop", "emial", "metric:x", "stop", "webhook")) == ("stop", "metric:x")
