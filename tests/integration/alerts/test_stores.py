"""The adapters of alerts against AWS in process."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import string
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from tocsin.alerts import AlertGroup, CommitConflict, Known, LogEntry, RuleAlert
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.known_runs import KnownRuns
from tocsin.aws.limits import Cap, Shares, StopGuard
from tocsin.aws.s3 import S3Checkpoints, checkpoint_key
from tocsin.aws.silences import DynamoSilences
from tocsin.aws.sqs import Queue, SqsTimer
from tocsin.aws.turns import Turns
from tocsin.evaluation import Checkpoint, RuleRecord
from tocsin.events import StatusChange
from tocsin.model import Severity
from tocsin.owners import SHARED, owner_of
from tocsin.parsing import StopLimit
from tocsin.watch import Silence

from tests.events import CHANGE

from .conftest import DETAIL, RUN, Deployment

NOW = 1_800_000_000.0
UNTIL = datetime.fromtimestamp(NOW + 3600, UTC)


@pytest.fixture
def table(deployment: Deployment) -> Table:
    return Table(boto3.client("dynamodb"), "table")


# ---- groups


@pytest.fixture
def groups(table: Table) -> DynamoGroups:
    return DynamoGroups(table, lambda: NOW)


def test_a_group_is_committed_on_the_version_that_was_read(groups: DynamoGroups) -> None:
    first = groups.load(RUN)
    assert (first.group, first.version) == (AlertGroup(RUN), None)
    one = groups.save(msgspec.structs.replace(first.group, job="one"), None)
    with pytest.raises(CommitConflict):
        groups.save(msgspec.structs.replace(first.group, job="other"), None)
    two = groups.save(msgspec.structs.replace(first.group, job="two"), one)
    with pytest.raises(CommitConflict):
        groups.save(msgspec.structs.replace(first.group, job="other"), one)
    stored = groups.load(RUN)
    assert (stored.group.job, stored.version) == ("two", two)
    assert groups.load(RUN + "2").version is None


@pytest.mark.parametrize(("wake_at", "due"), [(NOW + 10.0004, NOW + 10.0), (None, None)])
def test_is_in_the_index_only_while_something_is_due(
    groups: DynamoGroups, deployment: Deployment, wake_at: float | None, due: float | None
) -> None:
    version = groups.save(AlertGroup(RUN, wake_at=NOW + 1), None)
    groups.save(AlertGroup(RUN, wake_at=wake_at), version)
    item = deployment.item(f"alerts#{RUN}")
    assert ("due_shard" in item) is ("due_at" in item) is (due is not None)
    assert due is None or float(item["due_at"]["N"]) == due
    assert float(item["expires_at"]["N"]) == NOW + 90 * 86400


def noise(length: int, seed: int) -> str:
    """Text that cannot be compressed much."""
    return "".join(random.Random(seed).choices(string.printable, k=length))


def test_the_oldest_of_the_log_gives_way_to_what_fits(groups: DynamoGroups) -> None:
    log = tuple(
        LogEntry(NOW + at, "rule", "hold", "silenced", "email", detail=noise(1000, at))
        for at in range(1000)
    )
    groups.save(AlertGroup(RUN, log=log), None)
    kept = groups.load(RUN).group.log
    assert 100 < len(kept) < 1000
    assert kept == log[-len(kept) :]


def alert(**fields: Any) -> StatusChange:
    return msgspec.convert({**DETAIL, **fields}, StatusChange)


def test_what_rules_tell_at_length_gives_way_at_last(groups: DynamoGroups) -> None:
    alerts = {
        f"rule{at}": RuleAlert(
            alert(StatusDetails=noise(1024, at), Tensor=noise(1024, at + 1000)), NOW
        )
        for at in range(400)
    }
    groups.save(AlertGroup(RUN, alerts=alerts), None)
    kept = groups.load(RUN).group.alerts
    assert list(kept) == list(alerts)
    assert kept["rule7"].alert.dedup_id == "d1"
    assert kept["rule7"].alert.status_details == noise(1024, 7)[:200]


def test_more_than_an_item_holds_is_told(groups: DynamoGroups) -> None:
    seen = tuple(noise(1000, at) for at in range(1000))
    with pytest.raises(ValueError, match=r"alerts of s3://captures.* more than 350000 bytes"):
        groups.save(AlertGroup(RUN, seen=seen), None)


# ---- silences


@pytest.fixture
def silences(table: Table) -> DynamoSilences:
    return DynamoSilences(table, lambda: NOW)


def test_a_silence_is_kept_whole_and_expires(silences: DynamoSilences) -> None:
    assert list(silences.all()) == []
    given = Silence(UNTIL, "nightly-*", "Loss*", Severity.WARNING, "me", "known; \u5c64", "")
    added = silences.add(given)
    assert dataclasses.replace(added, id="") == given
    assert len(added.id) == 8
    other = silences.add(Silence(UNTIL + timedelta(hours=1), rule="Overfit"))
    assert list(silences.active(NOW)) == [added, other]
    assert list(silences.active(NOW + 3600)) == [other]
    assert list(silences.all()) == [added, other]


def test_a_silence_is_ended_early(silences: DynamoSilences) -> None:
    added, other = silences.add(Silence(UNTIL)), silences.add(Silence(UNTIL))
    ended = silences.expire(added.id, NOW + 60)
    assert ended == dataclasses.replace(added, until=datetime.fromtimestamp(NOW + 60, UTC))
    assert list(silences.active(NOW + 60)) == [other]
    assert silences.expire(added.id, NOW + 90) == ended  # what has ended stays so
    with pytest.raises(KeyError):
        silences.expire("unknown", NOW)


def test_long_expired_ones_are_forgotten(silences: DynamoSilences) -> None:
    week = timedelta(days=7)
    silences.add(Silence(datetime.fromtimestamp(NOW, UTC) - week))
    kept = silences.add(Silence(datetime.fromtimestamp(NOW + 1, UTC) - week))
    added = silences.add(Silence(UNTIL))
    assert list(silences.all()) == [kept, added]


def stored(table: Table, silences: list[Silence]) -> None:
    body = zlib.compress(msgspec.json.encode(silences))
    table.save("silences", body, None)


def test_there_is_an_end_to_silences(table: Table, silences: DynamoSilences) -> None:
    stored(table, [Silence(UNTIL, id=str(at)) for at in range(499)])
    silences.add(Silence(UNTIL))
    with pytest.raises(ValueError, match="there are 500 silences"):
        silences.add(Silence(UNTIL))
    assert len(silences.all()) == 500


def test_silences_too_long_for_an_item_are_refused(table: Table, silences: DynamoSilences) -> None:
    def long(seed: int) -> Silence:
        job, rule, reason = noise(256, seed), noise(256, seed + 1000), noise(512, seed + 2000)
        return Silence(UNTIL, job, rule, reason=reason)

    stored(table, [long(at) for at in range(410)])
    with pytest.raises(ValueError, match="too many silences"):
        silences.add(long(410))
    assert len(silences.all()) == 410


def test_two_that_add_at_once_both_do(silences: DynamoSilences, table: Table) -> None:
    class Interrupted(Table):
        def load(self, key: str) -> tuple[bytes | None, int | None]:
            found = Table.load(self, key)
            if others:
                DynamoSilences(table, lambda: NOW).add(others.pop())
            return found

    others = [Silence(UNTIL, rule="A"), Silence(UNTIL, rule="B")]
    DynamoSilences(Interrupted(table.client, table.name), lambda: NOW).add(Silence(UNTIL, rule="C"))
    assert [each.rule for each in silences.all()] == ["B", "A", "C"]


def test_whoever_never_gets_a_turn_gives_up(table: Table) -> None:
    def interrupted(body: bytes | None) -> tuple[bytes, None]:
        table.save("key", b"other", table.load("key")[1])
        return b"mine", None

    with pytest.raises(CommitConflict, match="key: 10 others"):
        table.change("key", interrupted)
    assert table.load("key") == (b"other", 10)


# ---- the stop guard, shares of owners


def test_the_guard_counts_runs_of_the_whole_deployment(table: Table) -> None:
    clock = [NOW]
    limits = StopLimit(2, 600.0), StopLimit(3, 600.0)
    guards = [StopGuard(table, *limits, lambda: clock[0]) for _ in range(2)]
    assert guards[0].may("s3://b/a/1", "sagemaker") is None
    assert guards[1].may("s3://b/a/deep/2", "sagemaker") is None
    assert guards[1].may("s3://b/a/1", "sagemaker") is None
    for guard in guards:
        held = guard.may("s3://b/a/3", "sagemaker")
        assert held is not None
        assert "2 within 10 min per owner (stopGuard)" in held.why
        assert held.until == NOW + 600
    assert guards[0].may("s3://b/a/4", "hook") is None, "requests to hooks are not stops"
    assert guards[0].may("s3://b/b/4", "sagemaker") is None
    assert guards[1].may("s3://b/c/5", "sagemaker") is not None, "the ceiling"
    clock[0] += 600
    assert guards[0].may("s3://b/a/3", "sagemaker") is None


def test_a_thousand_runs_of_long_names_are_counted(table: Table) -> None:
    guard = StopGuard(table, StopLimit(1000, 86400.0), StopLimit(1000, 86400.0), lambda: NOW)
    stops = {f"{at:032x}": NOW for at in range(999)}  # as an earlier version wrote them
    guard.table.save("stop-guard", msgspec.json.encode(stops), None)
    assert guard.may("s3://b/" + "x" * 1000, "sagemaker") is None
    assert guard.may("s3://b/" + "y" * 1000, "sagemaker") is not None


def shares(table: Table, owner: int, everybody: int, run: int | None = None) -> Shares:
    caps = dict.fromkeys(SHARED, Cap(owner, everybody, run, "anOption"))
    return Shares(table, caps, owner_of, lambda: NOW)


@pytest.mark.parametrize(
    ("cap", "asked", "granted"),
    [
        (5, [1, 1, 1, 1, 1, 1], [True] * 5 + [False]),
        (5, [3, 3, 2, 1], [True, False, True, False]),
        (5, [6, 5, 1], [False, True, False]),
        (0, [1, 1], [False, False]),
    ],
)
def test_never_more_than_the_cap(
    table: Table, cap: int, asked: list[int], granted: list[bool]
) -> None:
    said = [shares(table, 10, cap).take("sms", "s3://b/a/1", number) for number in asked]
    assert [each is None for each in said] == granted
    refusals = {each for each in said if each is not None}
    assert all(f"this deployment's cap of {cap} in 2027-01 (anOption)" in each for each in refusals)


@pytest.mark.parametrize(
    ("caps", "runs", "whose"),
    [
        ((9, 9, 1), ("a/1", "a/1"), "this run's"),
        ((1, 9, 9), ("a/1", "a/2"), "owner a's"),
        ((9, 1, 9), ("a/1", "b/1"), "this deployment's"),
    ],
)
def test_a_share_is_of_a_run_an_owner_and_the_deployment(
    table: Table, caps: tuple[int, int, int], runs: tuple[str, str], whose: str
) -> None:
    some = shares(table, *caps)
    assert some.take("email", f"s3://b/{runs[0]}") is None
    refused = some.take("email", f"s3://b/{runs[1]}")
    assert refused is not None
    assert f"{whose} cap of 1 in 2027-01-15" in refused
    assert some.take("webhook", f"s3://b/{runs[1]}") is None, "each kind by itself"


def test_what_is_refused_or_given_back_is_not_counted(table: Table) -> None:
    some = shares(table, 2, 3)
    assert some.take("sms", "s3://b/a/1", 2) is None
    assert some.take("sms", "s3://b/b/1", 2) is not None, "the deployment's cap"
    assert some.take("sms", "s3://b/b/1", 1) is None, "the refused two are not the owner's"
    some.give_back("sms", "s3://b/a/1", 2)
    some.give_back("sms", "s3://b/a/1", 2)  # no more than was taken
    assert [some.take("sms", "s3://b/a/1") for _ in range(2)] == [None, None]
    assert some.take("sms", "s3://b/a/1") is not None


def test_a_name_counts_once(table: Table) -> None:
    some = shares(table, 3, 4, run=2)

    def refused(run: str, names: str) -> list[tuple[str, str]]:
        """Each name that is refused, and whose cap is reached."""
        answers = some.admit("issue", f"s3://b/{run}", names)
        return [
            (name, why.partition("exceed ")[2].partition(" in ")[0])
            for name, why in answers.items()
        ]

    assert refused("a/1", "xyxyz") == [("z", "this run's cap of 2")]
    assert refused("a/2", "xz") == [], "the owner has x already"
    assert refused("a/3", "vx") == [("v", "owner a's cap of 3")]
    assert refused("b/1", "x") == [], "each owner's names are its own"
    for _ in range(2):
        assert refused("b/1", "xy") == [("y", "this deployment's cap of 4")]
    assert refused("a/1", "x") == []
    larger = shares(table, 3, 4, run=2)
    assert larger.admit("issue", "s3://b/b/1", "x") == {}, "what is refused leaves no name"
    assert len(larger.admit("issue", "s3://b/c/1", "pq")) == 2


def test_the_last_names_of_the_deployment_are_admitted_one_by_one(table: Table) -> None:
    some = shares(table, 9, 4, run=9)
    assert some.admit("issue", "s3://b/a/1", "xyz") == {}
    assert [*some.admit("issue", "s3://b/b/1", "pqr")] == ["q", "r"]
    larger = shares(table, 9, 5, run=9)
    assert [*larger.admit("issue", "s3://b/b/1", "pqr")] == ["r"]


def test_names_of_others_at_the_same_time_are_counted(table: Table) -> None:
    some, other = (shares(table, 3, 9, run=9) for _ in range(2))

    class Slow(Table):
        def get(self, key: str) -> dict[str, Any] | None:
            found = super().get(key)
            if key.endswith("#owner#a"):
                other.admit("issue", "s3://b/a/2", "pq")
            return found

    slow = dataclasses.replace(some, table=Slow(table.client, table.name))
    assert [*slow.admit("issue", "s3://b/a/1", "xyz")] == ["y", "z"]


def test_an_instance_asks_once_for_a_name(table: Table) -> None:
    some = shares(table, 3, 4, run=2)
    names = ("x", "y", "of a run at its cap, which asks at each of its steps")
    answers = some.admit("issue", "s3://b/a/1", names)
    elsewhere = dataclasses.replace(some, table=Table(table.client, "no-table"))
    assert [*answers] == [names[2]]
    assert elsewhere.admit("issue", "s3://b/a/1", names) == answers
    with pytest.raises(ClientError):
        elsewhere.admit("issue", "s3://b/a/2", "x")


def test_no_name_is_admitted_where_the_cap_is_nothing(table: Table) -> None:
    assert [*shares(table, 0, 0, run=0).admit("issue", "s3://b/a/1", "x")] == ["x"]


def test_each_month_begins_again(table: Table, deployment: Deployment) -> None:
    clock = [datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC).timestamp()]
    some = Shares(table, {"sms": Cap(1, 1)}, owner_of, lambda: clock[0])
    assert some.take("sms", RUN) is None
    assert some.take("sms", RUN) is not None
    clock[0] += 1
    assert some.take("sms", RUN) is None
    item = deployment.item("sms#2026-12")
    assert (item["sent"]["N"], float(item["expires_at"]["N"])) == ("1", clock[0] + 400 * 86400)


# ---- who delivers


def test_so_many_deliver_at_a_time(table: Table) -> None:
    clock = [NOW]
    turns = Turns(table, 2, lambda: clock[0])
    assert [turns.take(owner, NOW + 30) for owner in "abc"] == [True, True, False]
    turns.give_back("a")
    turns.give_back("never")
    assert turns.take("c", NOW + 60)
    assert not turns.take("d", NOW + 60)
    clock[0] += 31
    assert turns.take("d", NOW + 60)  # b was cut off
    assert not turns.take("e", NOW + 60)
    assert Turns(table, 1, lambda: clock[0], "backlog#vision").take("e", NOW + 60)


# ---- what evaluate knows


@pytest.fixture
def known(deployment: Deployment) -> Callable[[str], Known | None]:
    return KnownRuns(S3Checkpoints(boto3.client("s3"), "state"), lambda: NOW).known


def test_a_checkpoint_tells_of_all_that_fired(known: Callable[[str], Known | None]) -> None:
    def told(name: str, sequence: int) -> RuleRecord:
        change = msgspec.structs.replace(
            CHANGE, run=RUN, rule_configuration_name=name, sequence=sequence, dedup_id=name
        )
        return RuleRecord("LossNotDecreasing", "f", last_change=change)

    rules = {"b": told("b", 7), "a": told("a", 3), "new": RuleRecord("Overfit", "f")}
    checkpoint = Checkpoint(RUN, rules=rules, sequence=7)
    S3Checkpoints(boto3.client("s3"), "state").save(checkpoint, None)
    found = known(RUN)
    assert found is not None
    assert [(each.dedup_id, each.sequence) for each in found.alerts] == [("a", 3), ("b", 7)]
    assert found.alerts[0].run == RUN
    assert found.alerts[0].firing
    assert (found.rules, found.sequence) == ({"a", "b", "new"}, 7)


def test_one_that_is_no_alert_costs_no_other(
    known: Callable[[str], Known | None], caplog: pytest.LogCaptureFixture
) -> None:
    changes = [
        msgspec.structs.replace(CHANGE, run=RUN, rule_configuration_name=name, dedup_id=name)
        for name in ("a", "x" * 2000)
    ]
    rules = {
        each.rule_configuration_name: RuleRecord("R", "f", last_change=each) for each in changes
    }
    S3Checkpoints(boto3.client("s3"), "state").save(Checkpoint(RUN, rules=rules), None)
    found = known(RUN)
    assert found is not None
    assert [each.dedup_id for each in found.alerts] == ["a"]
    [line] = caplog.messages
    assert "no alert" in line


def test_no_checkpoint_and_one_that_cannot_be_read(
    known: Callable[[str], Known | None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert known(RUN) is None
    assert caplog.messages == []
    boto3.client("s3").put_object(Bucket="state", Key=checkpoint_key(RUN), Body=b"{}")
    assert known(RUN) is None
    [line] = caplog.messages
    assert line.startswith(f"checkpoint of {RUN} cannot be read: ")


# ---- messages for later


@pytest.mark.parametrize(
    ("delay", "seconds"), [(0.0, 0), (-3.0, 0), (0.2, 1), (10.0, 10), (899.5, 900), (5000.0, 900)]
)
def test_a_flush_after_its_delay(deployment: Deployment, delay: float, seconds: int) -> None:
    sqs = boto3.client("sqs")
    body = json.dumps({"tocsin": "flush", "run": RUN})
    with Stubber(sqs) as stub:
        asked = {"QueueUrl": "https://q", "MessageBody": body, "DelaySeconds": seconds}
        stub.add_response("send_message", {}, asked)
        SqsTimer(Queue(sqs, "https://q")).flush(RUN, delay)
        stub.assert_no_pending_responses()
