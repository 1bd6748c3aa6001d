"""How an action may be written."""

from __future__ import annotations

import pytest
from tocsin.watch import action_fault


@pytest.mark.parametrize(
    "action",
    [
        "stop",
        "email",
        "email:ml-oncall@example.com",
        "email:First.Last+tag@sub.example.co.uk",
        "sms",
        "sms:+15551230000",
        "metric",
        "metric:loss",
        "metric:Loss of the (first) head",
        "webhook:chat-ops",
    ],
)
def test_well_formed(action):
    assert action_fault(action) is None


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("", "unknown action '': there are stop, email, sms, metric, webhook"),
        ("Stop", "unknown action 'Stop': did you mean stop?"),
        ("emial:a@b.c", "did you mean email?"),
        ("stop:j1", "stop takes no argument"),
        ("stop:", "stop takes no argument"),
        ("email:", "'' is not an address"),
        ("email:nobody", "'nobody' is not an address"),
        ("email:a@b.com,c@d.com", "is not an address"),
        ("email:*@example.com", "is not an address"),
        ("email:a@example.", "is not an address"),
        ("sms:", "'' is not a phone number"),
        ("sms:15551230000", "is not a phone number like +15551230000"),
        ("sms:+0555123000", "is not a phone number"),
        ("sms:+1555123000012345", "is not a phone number"),
        ("sms:+1555 1230000", "is not a phone number"),
        ("metric:", "is not a metric name"),
        ("metric::x", "no colon first"),
        ("metric:Verlust ä", "is not a metric name"),
        (f"metric:{'x' * 256}", "is not a metric name"),
        ("webhook", "must name its endpoint: webhook:NAME"),
        ("webhook:", "the name that the deployment gives an endpoint"),
        ("webhook:https://example.com", "the name that the deployment gives an endpoint"),
        ("email:a@b.com\n", "is not an address"),
    ],
)
def test_malformed(action, wrong):
    assert wrong in action_fault(action)
