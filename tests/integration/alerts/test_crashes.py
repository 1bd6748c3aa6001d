"""An invocation of ``act`` that ends at any call of the outside ports, and what becomes of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import boto3
import pytest
from moto import mock_aws
from tocsin.alerts import AlertGroup, AlertPorts, decode_group, parse_message, react
from tocsin.aws.connect.act import connect_act
from tocsin.own_messages import encode_flush

from .conftest import CLIENT, RUN, Deployment, body, commit

START = 1_800_000_000.0
VISIBILITY = 180.0
TRIES = 5
HORIZON = 900.0


class Killed(BaseException):
    """The process goes away: nothing after it runs, not even a clean-up."""


def killed() -> None:
    raise Killed


def broken() -> None:
    """The network is down: a client's retries are used up."""
    raise TimeoutError


@dataclass
class Outside:
    """All of AWS as ``act`` sees it, with a clock and a queue that wait for nobody. ``happens``
    at the call of number ``at``: before it, or ``after`` it.
    """

    at: int = -1
    happens: Callable[[], None] = lambda: None
    after: bool = False
    clock: float = START
    calls: list[str] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    queue: list[tuple[float, int, str]] = field(default_factory=list)  # due, receives, body
    dead: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def client(self, service: str) -> Any:
        return self if service == "sqs" else _Client(self, service, boto3.client(service))

    def send_message(self, *, QueueUrl: str, MessageBody: str, DelaySeconds: int) -> None:  # noqa: N803 - as boto3 has it
        sent = (self.clock + DelaySeconds, 0, MessageBody)
        self.call("sqs.send_message", lambda: self.queue.append(sent))

    def call(self, name: str, do: Callable[[], Any], effect: str = "") -> Any:
        now = len(self.calls) == self.at
        self.calls.append(name)
        if now and not self.after:
            self.happens()
        answer = do()
        self.effects[effect or name] += 1
        if now and self.after:
            self.happens()
        return answer


_NO_CALLS = ("exceptions", "meta", "generate_presigned_url")


@dataclass
class _Client:
    """A service's client whose every call is counted, and may be the last."""

    outside: Outside
    service: str
    real: Any

    def __getattr__(self, operation: str) -> Any:
        def call(**asked: Any) -> Any:
            name = f"{self.service}.{operation}"
            action = asked.get("MessageAttributes", {}).get("action", {}).get("StringValue", "")
            if action.startswith("["):  # for everybody: the action, then whom it names
                action = json.loads(action)[0]
            do = getattr(self.real, operation)
            answer = self.outside.call(name, lambda: do(**asked), f"{name} {action}".rstrip())
            self.outside.events += [json.loads(e["Detail"]) for e in asked.get("Entries", ())]
            return answer

        return getattr(self.real, operation) if operation in _NO_CALLS else call

    def get_paginator(self, operation: str) -> Any:
        pages = self.real.get_paginator(operation).paginate

        @dataclass
        class Paginator:
            paginate: Any

        call = self.outside.call
        name = f"{self.service}.{operation}"
        return Paginator(lambda **asked: call(name, lambda: list(pages(**asked))))


Arriving = list[tuple[float, str]]
"""When each message comes, in seconds after the start."""


CRITICAL = body(Actions=["stop", "email"])
OTHER = body(
    RuleConfigurationName="Overfit",
    Severity="warning",
    Actions=["email", "sms", "metric", "email:a@example.org"],
    DedupId="d2",
    Sequence=2,
)
OVER = body(
    RuleEvaluationStatus="InProgress",
    PreviousStatus="IssuesFound",
    Actions=["stop", "email"],
    DedupId="d3",
    Sequence=3,
)
FIRED: Arriving = [(0.0, CRITICAL), (1.0, OTHER)]
ALL: Arriving = [*FIRED, (600.0, OVER)]


def deliver(
    outside: Outside, deployment: Deployment, ports: AlertPorts, arriving: Arriving
) -> None:
    """Brings every message, again while it fails, and patrols, for a quarter of an hour."""
    outside.queue += [(START + after, 0, text) for after, text in arriving]
    while outside.clock < START + HORIZON:
        due = [each for each in outside.queue if each[0] <= outside.clock]
        if due:
            first = min(due, key=lambda each: each[0])
            outside.queue.remove(first)
            receive(outside, ports, *first)
            continue
        outside.clock += 1.0
        if outside.clock % 300 == 0:
            patrol(outside, deployment)


def receive(outside: Outside, ports: AlertPorts, due: float, receives: int, text: str) -> None:
    if receives == TRIES:
        outside.dead.append(text)
        return
    commit(text)
    try:
        react(parse_message(text), ports, ends=outside.clock + 30)
    except (Exception, Killed):  # noqa: BLE001 - whatever it was, the message comes back
        outside.queue.append((outside.clock + VISIBILITY, receives + 1, text))


def patrol(outside: Outside, deployment: Deployment) -> None:
    due_at = deployment.item(f"alerts#{RUN}").get("due_at", {}).get("N")
    if due_at is not None and float(due_at) <= outside.clock:
        outside.queue.append((outside.clock, 0, encode_flush(RUN)))


@dataclass(frozen=True)
class Life:
    """What a run's alerts came to: what AWS did, what the group and the bus say of it."""

    effects: Counter[str]
    calls: list[str]
    group: AlertGroup
    recorded: set[tuple[str, str]]
    dead: list[str]

    def told(self) -> Counter[tuple[str, str, str]]:
        """How often what was done for each rule by each action."""
        return Counter(
            (entry.rule, entry.action, str(entry.outcome))
            for entry in self.group.log
            if entry.decision == "send"
        )

    def repeated(self) -> Counter[str]:
        """Messages to people that went out more often than there was a task for."""
        tasks = {entry.task: entry.action for entry in self.group.log if entry.task}
        messages = [action for action in tasks.values() if action not in ("stop", "metric")]
        planned = Counter(f"sns.publish {action}" for action in messages)
        sent = Counter({name: n for name, n in self.effects.items() if "publish" in name})
        assert sent >= planned, "a message was lost"
        return sent - planned


def live(outside: Outside, arriving: Arriving, meanwhile: str = "") -> Life:
    """``meanwhile`` is a message that arrives at the call at which something happens."""
    with mock_aws():
        deployment = Deployment(watched=False)
        ports = connect_act(deployment.settings, outside.client, lambda: outside.clock)
        if meanwhile:
            outside.happens = partial(receive, outside, ports, 0.0, 0, meanwhile)
        deliver(outside, deployment, ports, arriving)
        recorded = {(each["DedupId"], each["Action"]) for each in outside.events}
        group = decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"])
    return Life(outside.effects, outside.calls, group, recorded, outside.dead)


def moments(calls: Sequence[str]) -> list[int]:
    """Return the first of the calls that come alike between two others."""
    between = [*zip(["", *calls], calls, [*calls[1:], ""], strict=False)]
    return [at for at, each in enumerate(between) if between.index(each) == at]


@pytest.fixture(scope="module", autouse=True)
def region() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setattr(boto3, "client", CLIENT)
        yield


@pytest.fixture(scope="module")
def undisturbed(region: None) -> Life:
    return live(Outside(), FIRED)


def test_undisturbed(undisturbed: Life) -> None:
    assert undisturbed.told() == {
        ("VanishingGradient", "stop", "done"): 1,
        ("VanishingGradient", "email", "done"): 1,
        ("Overfit", "email", "done"): 1,
        ("Overfit", "sms", "done"): 1,
        ("Overfit", "metric", "done"): 1,
        ("Overfit", "email:a@example.org", "done"): 1,
    }
    assert undisturbed.repeated() == {}
    assert (undisturbed.group.tasks, undisturbed.dead) == ((), [])


@pytest.mark.parametrize(("happens", "after"), [(killed, True), (broken, False), (broken, True)])
def test_loses_nothing_and_repeats_at_most_one_message(
    undisturbed: Life, happens: Callable[[], None], after: bool
) -> None:
    """Whatever kind of call it is at which the invocation ends. (To be killed before a call is to
    be killed after the one before it.)
    """
    for at in moments(undisturbed.calls):
        outside = Outside(at, happens, after)
        life = live(outside, FIRED)
        where = f"{outside.calls[at]}, call {at}"
        assert life.told() == undisturbed.told(), where
        assert life.recorded == undisturbed.recorded, where
        assert life.repeated().total() <= 1, where
        assert life.effects["sns.subscribe"] == 1, where
        assert (life.group.tasks, life.dead) == ((), []), where


def test_two_deliveries_of_everything_give_the_same() -> None:
    once, twice = Outside(), Outside()
    first, second = live(once, ALL), live(twice, sorted([*ALL, *ALL], key=lambda each: each[0]))
    late = live(Outside(), [*ALL, *((700.0, text) for _, text in ALL)])
    assert first.told()[("VanishingGradient", "email", "done")] == 2  # and that it is over
    for life in (second, late):
        assert life.told() == first.told()
        assert life.repeated() == {}
        for effect in ("s3.put_object", "cloudwatch.put_metric_data", "events.put_events"):
            assert life.effects[effect] == first.effects[effect]


def test_two_invocations_at_the_same_run(undisturbed: Life) -> None:
    """Whatever kind of call of the first it is before which the second comes and does all."""
    for at in moments(undisturbed.calls):
        outside = Outside(at)
        life = live(outside, FIRED, meanwhile=OTHER)
        assert life.told() == undisturbed.told(), outside.calls[at]
        assert life.repeated() == {}, outside.calls[at]
        assert (life.group.tasks, life.dead) == ((), []), outside.calls[at]
