"""A batch of messages: one look per run, no message waits for another run, each fails alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection

from tocsin.evaluation import BadMessage, Hint, JobEnded, handle_batch
from tocsin.evaluation.messages import CONTINUE
from tocsin.own_messages import encode_hint

ONE, OTHER = "s3://b/one", "s3://b/other"
FILES = [f"index/000000000/00000000000{step}_worker_0.json" for step in range(3)]


def of_s3(run: str, *keys: str) -> str:
    prefix = run.removeprefix("s3://b/")
    objects = [{"bucket": {"name": "b"}, "object": {"key": f"{prefix}/{key}"}} for key in keys]
    return json.dumps({"Records": [{"s3": each} for each in objects]})


def ended(job: str) -> str:
    detail = {"TrainingJobName": job, "TrainingJobArn": "arn:job", "TrainingJobStatus": "Failed"}
    return json.dumps({"source": "aws.sagemaker", "detail": detail})


def refuse(ids: Collection[str]) -> Collection[str]:
    raise AssertionError(f"handed on: {ids}")


def test_messages_of_a_run_are_one_look() -> None:
    bodies = {
        "1": of_s3(ONE, FILES[0]),
        "2": of_s3(OTHER, FILES[0]),
        "3": encode_hint(ONE, "patrol", 100.0),
        "4": of_s3(ONE, FILES[1], FILES[0]),
        "5": encode_hint(ONE, "patrol", 40.0),
        "6": ended("j1"),
        "7": ended("j1"),
    }
    seen: list[Hint | JobEnded] = []
    failures = handle_batch(bodies, seen.append, refuse)
    assert seen == [
        Hint(ONE, (FILES[0], FILES[1]), 100.0),
        Hint(OTHER, (FILES[0],)),
        JobEnded("j1", "arn:job"),
    ]
    assert failures.ids == set()


def test_a_run_that_continues_with_its_backlog_comes_last() -> None:
    bodies = {
        "1": encode_hint(ONE, CONTINUE),
        "2": of_s3(ONE, FILES[0]),
        "3": of_s3(OTHER, FILES[0]),
    }
    seen: list[Hint | JobEnded] = []
    handle_batch(bodies, seen.append, refuse)
    assert seen == [Hint(OTHER, (FILES[0],)), Hint(ONE, (FILES[0],), continues=True)]


def test_owners_take_turns() -> None:
    runs = ["evil/1", "evil/2", "evil/3", "prod/1", "evil/1", "prod/2", "vision/1"]
    bodies = {str(at): of_s3(f"s3://b/{run}", FILES[0]) for at, run in enumerate(runs)}
    bodies |= {"j": ended("j1"), "c": encode_hint("s3://b/vision/2", CONTINUE)}
    seen: list[str] = []

    def handle(subject: Hint | JobEnded) -> None:
        named = subject.run if isinstance(subject, Hint) else subject.job
        seen.append(named.removeprefix("s3://b/"))

    handle_batch(bodies, handle, refuse)
    first, second, third = ["evil/1", "prod/1", "vision/1", "j1"], ["evil/2", "prod/2"], ["evil/3"]
    assert seen == [*first, *second, *third, "vision/2"]


def test_a_message_that_fails_fails_alone() -> None:
    def handle(subject: Hint | JobEnded) -> None:
        if isinstance(subject, Hint) and subject.run == ONE:
            raise OSError("S3 does not answer")

    both = json.dumps(
        {"Records": [json.loads(of_s3(run, FILES[0]))["Records"][0] for run in (ONE, OTHER)]}
    )
    bodies = {
        "1": encode_hint(ONE, "grace"),
        "2": of_s3(OTHER, FILES[0]),
        "3": both,
        "4": "rubbish",
    }
    failures = handle_batch(bodies, handle, refuse)
    assert failures.ids == {"1", "3", "4"}
    assert [type(error) for error in failures.errors] == [BadMessage, OSError]


def test_what_does_not_begin_in_time_is_handed_on() -> None:
    """And it has not failed, unless the queue does not take it."""
    handed, looks = threading.Event(), []

    def hand_on(ids: Collection[str]) -> Collection[str]:
        assert set(ids) == {"2", "3"}
        handed.set()
        return ["3"]

    def handle(subject: Hint | JobEnded) -> None:
        looks.append(subject)
        assert handed.wait(10)  # a look that takes as long as the others have patience

    bodies = {"1": encode_hint(ONE, "a"), "2": encode_hint(OTHER, "b"), "3": ended("j1")}
    failures = handle_batch(bodies, handle, hand_on, patience=0.5)
    assert looks == [Hint(ONE)]
    assert failures.ids == {"3"}


def test_a_queue_that_fails_loses_nothing() -> None:
    asked = threading.Event()

    def hand_on(ids: Collection[str]) -> Collection[str]:
        asked.set()
        raise OSError("no route")

    bodies = {"1": encode_hint(ONE, "a"), "2": encode_hint(OTHER, "b")}
    failures = handle_batch(bodies, lambda _: asked.wait(10) and None, hand_on, patience=0.5)
    assert failures.ids == {"2"}
