"""Who may be notified."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.actions import recipients, refusal

LIST = ("ml-oncall@example.com", "*@Team.example.org", "+15551230000")


@pytest.mark.parametrize(
    ("kind", "recipient", "why"),
    [
        ("email", "a..b@example.com", "is not an e-mail address"),
        ("email", "*@example.com", "is not an e-mail address"),
        ("sms", "15551230000", "is not a phone number"),
        ("fax", "+15551230000", "'fax' takes no recipients"),
    ],
)
def test_a_list_does_not_allow_what_is_not_valid(kind: str, recipient: str, why: str) -> None:
    assert why in str(refusal(kind, recipient, [recipient]))
    assert why in str(recipients()(kind, recipient))


@pytest.mark.parametrize(
    ("kind", "recipient", "allowed"),
    [
        ("email", "ml-oncall@example.com", True),
        ("email", "ml-oncall@EXAMPLE.com", True),
        ("email", "ML-oncall@example.com", False),
        ("email", "other@example.com", False),
        ("email", "Any.One@team.example.ORG", True),
        ("email", "any@sub.team.example.org", False),
        ("email", "any@notteam.example.org", False),
        ("sms", "+15551230000", True),
        ("sms", "+15551230001", False),
    ],
)
def test_the_deployments_list(kind: str, recipient: str, allowed: bool) -> None:
    assert (refusal(kind, recipient, LIST) is None) == allowed


def test_how_to_fix_it() -> None:
    assert refusal("email", "a@example.net", LIST) == (
        "'a@example.net' is not on the deployment's list of recipients: "
        "add it, or *@example.net, to the option allowedRecipients"
    )
    assert refusal("sms", "+4420", ()) != refusal("sms", "+442079460000", ())
    assert str(refusal("sms", "+442079460000", ())).endswith(
        "add it to the option allowedRecipients"
    )


@given(st.sampled_from(["email", "sms", "webhook"]), st.text(), st.lists(st.text()))
def test_any_text_is_answered_in_one_line(kind: str, recipient: str, allowed: list[str]) -> None:
    said = refusal(kind, recipient, allowed)
    assert said is None or len(said.splitlines()) == 1


@given(st.emails(domains=st.just("example.com")))
def test_who_is_not_on_the_list_is_not_notified(address: str) -> None:
    assert refusal("email", address, ["*@example.org", "+15551230000"]) is not None
