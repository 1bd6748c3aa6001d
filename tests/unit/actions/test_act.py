from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tocsin.actions import ActionsFailed, Busy, Job, Outcome, Result, act
from tocsin.model import RuleStatus

JOB = Job("arn", "InProgress", ("s3://captures/jobs",))


class Memory:
    """Does a thing once, as the table does: nothing is kept of what raised."""

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}

    def __call__(self, key: str, do: Callable[[], Result]) -> Result:
        if key not in self.results:
            self.results[key] = do()
        return self.results[key]


@pytest.fixture
def memory() -> Memory:
    return Memory()


def told(world: Any) -> list[tuple[str, str]]:
    return [(event["Action"], event["Outcome"]) for event in world.events]


def test_takes_every_action_and_records_it(make_alert: Any, make_world: Any, memory: Any) -> None:
    world = make_world(JOB)
    results = act(make_alert(Actions=["stop", "email", "sms", "metric"]), world.ports, memory)
    assert [name for name, _ in world.did] == ["stop", "publish", "publish", "metric"]
    assert {result.outcome for result in results.values()} == {Outcome.DONE}
    assert world.events[0] == {
        "TrainingJobName": "j1",
        "Run": "s3://captures/jobs/j1/debug-output",
        "RunId": "r1",
        "RuleConfigurationName": "VanishingGradient",
        "Action": "stop",
        "Outcome": "done",
        "Detail": "asked SageMaker to stop training job j1",
        "DedupId": "d1",
    }


@pytest.mark.parametrize("order", [["email", "metric", "stop"], ["stop", "metric", "email"]])
def test_stop_comes_first_and_the_others_tell_of_it(
    make_alert: Any, make_world: Any, memory: Any, order: list[str]
) -> None:
    world = make_world(JOB)
    act(make_alert(Actions=order), world.ports, memory)
    assert world.did[0] == ("stop", "j1")
    assert world.messages()[0].subject.endswith("; stop requested")


def test_an_action_named_twice_is_taken_once(make_alert: Any, world: Any, memory: Any) -> None:
    actions = ["metric", "metric:loss", "metric", "metric:loss"]
    act(make_alert(Actions=actions), world.ports, memory)
    assert [what[0] for _, what in world.did] == ["TrainingScalar", "loss"]


@pytest.mark.parametrize("status", [s for s in RuleStatus if s is not RuleStatus.ISSUES_FOUND])
def test_other_statuses_ask_for_nothing(
    make_alert: Any, world: Any, memory: Any, status: RuleStatus
) -> None:
    alert = make_alert(RuleEvaluationStatus=status.value, Actions=["stop", "email"])
    assert act(alert, world.ports, memory) == {}
    assert (world.did, world.events, memory.results) == ([], [], {})


def test_a_second_copy_does_nothing(make_alert: Any, make_world: Any, memory: Any) -> None:
    world = make_world(JOB)
    alert = make_alert(Actions=["stop", "email", "metric"])
    first = act(alert, world.ports, memory)
    did, events = list(world.did), list(world.events)
    assert act(alert, world.ports, memory) == first
    assert (world.did, world.events) == (did, events)


def test_another_alert_is_another_matter(make_alert: Any, world: Any, memory: Any) -> None:
    act(make_alert(DedupId="d1"), world.ports, memory)
    act(make_alert(DedupId="d2"), world.ports, memory)
    assert len(world.messages()) == 2


def test_one_that_fails_keeps_none_of_the_others_back(
    make_alert: Any, make_world: Any, memory: Any
) -> None:
    world = make_world(JOB, broken={"stop": TimeoutError("throttled\n")})
    alert = make_alert(Actions=["stop", "email", "metric"])
    with pytest.raises(ActionsFailed, match=r"^stop: TimeoutError: throttled$") as caught:
        act(alert, world.ports, memory)
    assert list(caught.value.failed) == ["stop"]
    assert [name for name, _ in world.did] == ["publish", "metric"]
    assert "Stop failed: TimeoutError: throttled." in world.messages()[0].texts["email"]
    assert told(world) == [("stop", "failed"), ("email", "done"), ("metric", "done")]

    with pytest.raises(ActionsFailed):
        act(alert, world.ports, memory)
    assert len(world.events) == 3

    world.broken = {}
    results = act(alert, world.ports, memory)
    assert results["stop"].outcome is Outcome.DONE
    assert [name for name, _ in world.did] == ["publish", "metric", "stop"]
    assert told(world)[3:] == [("stop", "done")]


def test_a_crash_before_the_record_repeats_only_the_record(
    make_alert: Any, make_world: Any, memory: Any
) -> None:
    world = make_world(JOB, broken={"event": RuntimeError("bus is gone")})
    alert = make_alert(Actions=["stop", "email"])
    with pytest.raises(ActionsFailed, match="bus is gone"):
        act(alert, world.ports, memory)
    assert world.messages()[0].subject.endswith("; stop requested")  # for so it was
    world.broken = {}
    act(alert, world.ports, memory)
    assert [name for name, _ in world.did] == ["stop", "publish"]
    assert told(world) == [("stop", "done"), ("email", "done")]


def test_a_busy_copy_is_left_to_finish(make_alert: Any, world: Any) -> None:
    def busy(key: str, do: Callable[[], Result]) -> Result:
        raise Busy(key)

    with pytest.raises(Busy):
        act(make_alert(Actions=["stop", "email"]), world.ports, busy)
    assert (world.did, world.events) == ([], [])


@pytest.mark.parametrize("action", ["page", "Stop", "webhook:ops", ":", "", "x" * 5000, "a\nb"])
def test_an_unknown_action_is_refused(
    make_alert: Any, world: Any, memory: Any, action: str
) -> None:
    result = act(make_alert(Actions=[action]), world.ports, memory)[action]
    assert result.outcome is Outcome.REFUSED
    assert result.detail.endswith("there are stop, email, sms, metric")
    assert len(world.events[0]["Action"]) <= 80
    assert world.events[0]["Action"].isprintable()


@pytest.mark.parametrize(
    "odd", ["", "email:" + "x" * 5000, "metric:" + "x" * 5000, "stop:" + "x" * 5000, "sms:"]
)
def test_an_odd_action_costs_no_other(
    make_alert: Any, make_world: Any, memory: Any, odd: str
) -> None:
    world = make_world(JOB)
    results = act(make_alert(Actions=[odd, "stop", "email"]), world.ports, memory)
    assert results.pop(odd).outcome is Outcome.REFUSED
    assert {name: result.outcome for name, result in results.items()} == {
        "stop": Outcome.DONE,
        "email": Outcome.DONE,
    }
    assert [name for name, _ in world.did] == ["stop", "publish"]
    assert [outcome for _, outcome in told(world)].count("refused") == 1


def test_of_too_many_actions_the_rest_is_refused_as_one(
    make_alert: Any, make_world: Any, memory: Any
) -> None:
    world = make_world(JOB)
    alert = make_alert(Actions=[*(f"metric:m{number}" for number in range(1000)), "stop"])
    results = act(alert, world.ports, memory)
    assert world.did[0] == ("stop", "j1")
    assert len(world.did) == 64
    assert len(world.events) == 65
    assert told(world)[-1] == ("(the rest)", "refused")
    assert results["(the rest)"].detail == "more than 64 actions: the rest is left out"


@pytest.mark.parametrize(
    ("action", "planned"),
    [
        ("stop", "it would have been done: asked SageMaker to stop training job j1"),
        ("email", "it would have been done: published to the topic"),
        ("sms", "it would have been done: published to the topic"),
        ("metric:loss", "it would have been done: published abs_mean as loss = 3.1e-09"),
        ("metric:", "it would have been refused: '' is no metric name"),
    ],
)
def test_a_dry_run_says_what_it_would_do_and_does_nothing(
    make_alert: Any, make_world: Any, memory: Any, action: str, planned: str
) -> None:
    world = make_world(JOB)
    result = act(make_alert(Actions=[action], DryRun=True), world.ports, memory)[action]
    assert result.outcome is Outcome.DRY_RUN
    assert result.detail.startswith("dry run, nothing was done; ")
    assert planned in result.detail
    assert world.did == []
    assert [event["Outcome"] for event in world.events] == ["dry_run"]


def test_a_dry_run_writes_no_request_either(make_alert: Any, world: Any, memory: Any) -> None:
    result = act(make_alert(Actions=["stop"], DryRun=True), world.ports, memory)["stop"]
    assert "wrote s3://captures/jobs/j1/debug-output/STOP.json" in result.detail
    assert world.did == []
