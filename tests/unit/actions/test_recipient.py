"""Who may be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.actions._recipient import malformed, refusal

LIST = ("ml-oncall@example.com", "*@Team.example.org", "+15551230000")


@pytest.mark.parametrize(
    ("kind", "recipient"),
    [
        ("email", "a.b@c-d.co.uk"),
        ("email", "First.Last+tag@Example.COM"),
        ("email", "o'neil_1@sub.example.com"),
        ("email", "a@xn--bcher-kva.example"),
        ("sms", "+1555123"),
        ("sms", "+155512300001234"),
    ],
)
def test_of_good_form(kind: str, recipient: str) -> None:
    assert malformed(kind, recipient) is None


@pytest.mark.parametrize(
    ("kind", "recipient", "why"),
    [
        ("email", "", "no e-mail address"),
        ("email", "nobody", "must have an @-sign"),
        ("email", "first.last@", "something after the @-sign"),
        ("email", "@example.com", "something before the @-sign"),
        ("email", "a..b@example.com", "two periods"),
        ("email", "a@localhost", "period"),
        ("email", "a@host.local", "special-use"),
        ("email", "a@[10.0.0.1]", "bracketed IP"),
        ("email", "Me <a@example.com>", "no e-mail address"),
        ("email", "*@example.com@example.com", "no e-mail address"),
        ("email", "a@example.com,b@example.com", "invalid characters"),
        ("email", "a@example.com\nBcc: b@example.com", "invalid characters"),
        ("email", "a@bücher.example", "xn--"),
        ("email", "a" * 65 + "@example.com", "too long"),
        ("email", "a@" + "b." * 200 + "com", "more than 320 characters"),
        ("sms", "", "no phone number"),
        ("sms", "15551230000", "no phone number"),
        ("sms", "+05551230000", "no phone number"),
        ("sms", "+155512", "no phone number"),
        ("sms", "+1555123000012345", "no phone number"),
        ("sms", "+1 555 123 0000", "no phone number"),
        ("sms", "+15551230000\n", "no phone number"),
        ("sms", "+١٥٥٥١٢٣٠٠٠٠", "no phone number"),
        ("fax", "+15551230000", "'fax' has no recipients"),
    ],
)
def test_of_bad_form(kind: str, recipient: str, why: str) -> None:
    said = malformed(kind, recipient)
    assert said is not None
    assert why in said
    assert said == refusal(kind, recipient, [recipient])  # no list makes it better


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


def test_how_to_mend_it() -> None:
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


@given(st.text(alphabet='aA.+@-[]"\\ \n\x00é1', max_size=30))
def test_who_is_sent_to_has_a_plain_address(address: str) -> None:
    if refusal("email", address, [address]) is None:
        assert address.count("@") == 1
        assert address.isascii()
        assert address.isprintable()
        assert " " not in address


@given(st.emails(domains=st.just("example.com")))
def test_nobody_is_told_who_is_not_on_the_list(address: str) -> None:
    assert refusal("email", address, ["*@example.org", "+15551230000"]) is not None
