from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest
from tocsin.actions import ACTIONS, NO_EFFECTS, ActionOutcome, Effects, JobToStop, take

JOB = JobToStop("arn", "InProgress", ("s3://captures/jobs",))


@pytest.mark.parametrize(
    ("action", "did"), [("stop", "stop"), ("email", "publish"), ("sms", "publish")]
)
def test_takes_the_action_of_that_name(ask: Any, make_world: Any, action: str, did: str) -> None:
    world = make_world(JOB)
    assert take(ask(action), *world.ports).outcome is ActionOutcome.DONE
    assert world.did[-1][0] == did


@pytest.mark.parametrize("action", ["page", "Stop", ":", "", ":stop", "x" * 5000, "a\nb"])
def test_an_unknown_action_is_refused(ask: Any, world: Any, action: str) -> None:
    result = take(ask(action), *world.ports)
    assert result.outcome is ActionOutcome.REFUSED
    assert result.detail.endswith("there are stop, relaunch, email, sms, metric, webhook")
    assert len(result.detail) < 200
    assert result.detail.isprintable()


@pytest.mark.parametrize("action", ["stop", "email", "sms", "metric"])
def test_trouble_is_raised(ask: Any, make_world: Any, action: str) -> None:
    broken = dict.fromkeys(("stop", "publish", "metric"), TimeoutError("throttled"))
    with pytest.raises(TimeoutError):
        take(ask(action), *make_world(JOB, broken=broken).ports)


@pytest.mark.parametrize(
    ("action", "planned"),
    [
        ("stop", "it would have been done: asked SageMaker to stop training job j1"),
        ("email", "it would have been done: published to the topic"),
        ("email:a@example.com", "it would have been done: published to the topic"),
        ("email:bad", "it would have been refused: bad is no address"),
        ("sms", "it would have been done: published to the topic"),
        ("metric:loss", "it would have been done: published abs_mean as loss = 3.1e-09"),
        ("metric:", "it would have been refused: '' is not a metric name"),
    ],
)
def test_a_dry_run_says_what_it_would_do_and_does_nothing(
    ask: Any, make_world: Any, action: str, planned: str
) -> None:
    world = make_world(JOB, guard="full", cap="used up", refused={"bad": "bad is no address"})
    result = take(ask(action, {"DryRun": True}), *world.ports)
    assert result.outcome is ActionOutcome.DRY_RUN
    assert result.detail.startswith("dry run, nothing was done; ")
    assert planned in result.detail
    assert world.did == []


def test_a_dry_run_writes_no_request_either(ask: Any, world: Any) -> None:
    result = take(ask("stop", {"DryRun": True}), *world.ports)
    assert "wrote s3://captures/jobs/j1/debug-output/STOP.json" in result.detail
    assert world.did == []


@pytest.mark.parametrize("name", sorted({*ACTIONS} - {"relaunch"}))  # it has a test of its own
@pytest.mark.parametrize("job", [None, JOB])
def test_a_dry_run_of_any_action_has_no_effect(
    ask: Any, make_world: Any, name: str, job: JobToStop | None
) -> None:
    def unexpected(*_: object) -> Any:
        raise AssertionError("a dry run has an effect")

    effects = Effects(**{each.name: unexpected for each in fields(Effects)})
    request = ask(name if name != "webhook" else "webhook:ops", {"DryRun": True})
    result = take(request, make_world(job).lookups, effects)
    assert result.outcome is ActionOutcome.DRY_RUN
    assert "would have been done" in result.detail


def test_a_dry_run_must_know_every_effect() -> None:
    """An effect with a default could be forgotten: without one, mypy and this import refuse."""
    assert all(
        each.default is MISSING and each.default_factory is MISSING for each in fields(Effects)
    )
    assert {getattr(NO_EFFECTS, each.name) for each in fields(Effects)} == {NO_EFFECTS.stop_job}
