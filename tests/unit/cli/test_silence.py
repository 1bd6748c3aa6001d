"""``tocsin silence``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import NoCredentialsError
from hypothesis import given
from hypothesis import strategies as st
from tocsin.aws.dynamodb import Table
from tocsin.aws.silences import DynamoSilences
from tocsin.cli.errors import CommandError
from tocsin.cli.silences import LONGEST, end_of_silence
from tocsin.watch import Silence

REASON = ("--reason", "disk is replaced")
NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)


def _now():
    return datetime.now(UTC)


@pytest.fixture
def stored(stack):
    return DynamoSilences(Table(stack, "alerts"), lambda: _now().timestamp())


def test_add_list_and_expire(tocsin, stored):
    added = tocsin("silence", "add", "--job", "nightly-*", "--for", "2h", *REASON, "--json")
    assert (added.code, added.err) == (0, "")
    assert list(added.json) == [
        "id",
        "job",
        "rule",
        "severity",
        "until",
        "author",
        "reason",
        "active",
    ]
    assert {**added.json, "id": "", "until": "", "author": ""} == {
        "id": "",
        "job": "nightly-*",
        "rule": "*",
        "severity": None,
        "until": "",
        "author": "",
        "reason": "disk is replaced",
        "active": True,
    }
    left = datetime.fromisoformat(added.json["until"]) - _now()
    assert timedelta(hours=1.9) < left < timedelta(hours=2.1)
    id_ = added.json["id"]
    (silence,) = stored.active(_now().timestamp())
    assert (silence.id, silence.reason) == (id_, "disk is replaced")
    assert tocsin("silence", "list", "--json").json == {"silences": [added.json]}
    ended = tocsin("silence", "expire", id_, "--json")
    assert (ended.code, ended.json["id"], ended.json["active"]) == (0, id_, False)
    assert tocsin("silence", "list").out == "nothing is silenced\n"
    assert tocsin("silence", "list", "--expired", "--json").json == {"silences": [ended.json]}
    refused = f"no silence {id_} is in force: see `tocsin silence list`"
    assert tocsin("silence", "expire", id_).complaint.startswith(refused)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--rule", "Overfit"), "rule Overfit"),
        (("--severity", "warning"), "severity warning"),
        (("--job", "*", "--severity", "info"), "severity info"),
        (("--job", "j1", "--rule", "Loss*", "--severity", "critical"), "job j1, rule Loss*, sev"),
        (("--all",), "everything"),
    ],
)
def test_what_is_silenced(tocsin, stored, options, what):
    said = tocsin("silence", "add", *options, "--for", "30m", *REASON, "--author", "ann")
    (silence,) = stored.active(_now().timestamp())
    lines = " ".join(said.out.split())
    assert f" UTC: {what}" in lines
    assert lines.endswith(f"tocsin silence expire {silence.id}")
    assert silence.author == "ann"
    listed = " ".join(tocsin("silence", "list").out.split())
    assert f"{silence.id} {silence.until:%Y-%m-%d %H:%M:%S} " in listed


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--all",), "a silence needs an end: --for 2h or --until 2026-12-01T08:00Z"),
        (
            ("--all", "--for", "2h", "--until", "2026-12-01T08:00Z"),
            "a silence needs exactly one end: --f",
        ),
        (("--all", "--for", "2"), "--for 2 is not a length of time: write 30m, 2h or 3d"),
        (("--all", "--for", "0s"), "the silence would have ended already: it is 20"),
        (("--all", "--for", "721h"), "a silence lasts at most 30 days"),
        (("--all", "--for", "999999999d"), "a silence lasts at most 30 days"),
        (
            ("--all", "--until", "tomorrow"),
            "--until tomorrow is not a time with a time zone: wri",
        ),
        (("--all", "--until", "2026-12-01T08:00"), "--until 2026-12-01T08:00 is not a time with"),
        (("--all", "--until", "2020-12-01T08:00Z"), "the silence would have ended already"),
        (("--all", "--until", "0001-01-01T00:00+14:00"), "--until 0001-01-01T00:00+14:00 is not a"),
        (("--all", "--until", "9999-12-31T23:59-14:00"), "--until 9999-12-31T23:59-14:00 is not a"),
        (("--for", "2h"), "say what to silence with --job, --rule or --severity, or --all"),
        (("--for", "2h", "--job", "*"), "say what to silence with"),
        (("--for", "2h", "--all", "--job", "j1"), "--all covers everything: leave out"),
        (("--for", "2h", "--job", ""), "--job: Expected `str` of length >= 1"),
        (("--for", "2h", "--rule", "x" * 257), "--rule: Expected `str` of length <= 256"),
        (("--for", "2h", "--severity", "bad"), "Invalid value for '--severity': 'bad' is not one"),
    ],
)
def test_what_is_refused(tocsin, stored, options, complaint):
    assert tocsin("silence", "add", *options, *REASON).complaint.startswith(complaint)
    assert not stored.all()


def test_a_reason_is_needed(tocsin, stored):
    said = tocsin("silence", "add", "--all", "--for", "2h")
    assert said.complaint.startswith("Missing option '--reason'")
    said = tocsin("silence", "add", "--all", "--for", "2h", "--reason", " \n")
    assert said.complaint.startswith("--reason is empty")
    assert not stored.all()


def test_who_it_was(tocsin, stack, stored, monkeypatch):
    def nobody(service):
        if service == "sts":
            raise NoCredentialsError
        return stack

    anonymous = ("silence", "add", "--all", "--for", "2h", *REASON, "--json")
    assert tocsin(*anonymous).json["author"] == "moto"  # arn:aws:sts::123456789012:user/moto
    monkeypatch.setattr("tocsin.cli.silences.real_client", nobody)
    monkeypatch.setenv("LOGNAME", "ann\x1b[2J")
    assert tocsin(*anonymous).json["author"] == "ann [2J"
    assert [silence.author for silence in stored.all()] == ["moto", "ann [2J"]


def test_texts_of_others_do_not_reach_the_terminal_raw(tocsin, stored):
    soon = _now() + timedelta(hours=2)
    stored.add(Silence(soon, "a\x1b[2J", "[bold]b", author="c\x07", reason="d\ne"))
    out = tocsin("silence", "list").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]b" in out


def test_where_it_is_looked_for(tocsin, stored, stacks, monkeypatch):
    stored.add(Silence(_now() + timedelta(hours=2), "j1"))
    monkeypatch.setenv("TOCSIN_STATE_TABLE", "another")
    assert tocsin("silence", "list").complaint.startswith("AWS: ")
    assert "job j1" in tocsin("silence", "list", "--table", "alerts").out
    monkeypatch.delenv("TOCSIN_STATE_TABLE")
    for _ in range(2):
        stacks.add_client_error("describe_stacks", "ValidationError", "does not exist")
    hint = "name the table with --table or TOCSIN_STATE_TABLE, or the stack with --stack or --stage"
    assert tocsin("silence", "list").complaint == f"there is no stack Tocsin: {hint}"
    assert tocsin("silence", "list", "--stack", "Mine").complaint.startswith("there is no stack M")
    named = [{"OutputKey": "StateTableName", "OutputValue": "alerts"}]
    mine = {"StackName": "Mine", "CreationTime": 0, "StackStatus": "CREATE_COMPLETE"}
    stacks.add_response("describe_stacks", {"Stacks": [{**mine, "Outputs": named}]})
    assert "job j1" in tocsin("silence", "list", "--stack", "Mine").out


@given(st.one_of(st.text(), st.from_regex(r"\d{1,12}(\.\d*)?[smhdwy]?", fullmatch=True)))
def test_whatever_is_typed_ends_within_bounds_or_is_refused(text):
    for lasting, until in ((text, None), (None, text)):
        try:
            end = end_of_silence(lasting, until, NOW)
        except CommandError:
            continue
        assert NOW - timedelta(seconds=1) < end <= NOW + LONGEST
        assert end.tzinfo is UTC


@pytest.mark.parametrize(
    ("until", "end"),
    [
        ("2026-12-01T09:30+01:00", "2026-12-01T08:30:00+00:00"),
        ("2026-12-01 08:30Z", "2026-12-01T08:30:00+00:00"),
        ("2026-12-31T08:00Z", "2026-12-31T08:00:00+00:00"),
    ],
)
def test_moments_are_utc(until, end):
    assert end_of_silence(None, until, NOW).isoformat() == end
