from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.evaluation import BadMessage, Hint, JobEnded, parse_message

INDEX = "index/000000000/000000000010_worker_0.json"


def s3_event(*keys: str, bucket: str = "b") -> str:
    records = [{"s3": {"bucket": {"name": bucket}, "object": {"key": key}}} for key in keys]
    return json.dumps({"Records": records})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (s3_event(f"jobs/j1/{INDEX}"), [Hint("s3://b/jobs/j1", (INDEX,))]),
        (s3_event("jobs/my+j%3D1/training_job_end.ts"), [Hint("s3://b/jobs/my j=1")]),
        (
            s3_event(f"a/{INDEX}", f"a/{INDEX}", f"c/{INDEX}"),
            [Hint("s3://b/a", (INDEX, INDEX)), Hint("s3://b/c", (INDEX,))],
        ),
        (s3_event("a/events/000000000010/000000000010_worker_0.tfevents"), []),
        (s3_event("a/STOP.json"), []),
        (
            s3_event("j1/profiler-output/system/incremental/2026100300/1791000000.algo-1.json"),
            [Hint("s3://b/j1/profiler-output", ("index/000029850/000029850000_algo-1.json",))],
        ),
        (
            s3_event("j1/profiler-output/system/training_job_end.ts"),
            [Hint("s3://b/j1/profiler-output")],
        ),
        (s3_event("a/notes/index.json"), []),
        (json.dumps({"Event": "s3:TestEvent", "Bucket": "b"}), []),
        (
            json.dumps(
                {
                    "detail-type": "Object Created",
                    "source": "aws.s3",
                    "detail": {"bucket": {"name": "b"}, "object": {"key": f"j 1/{INDEX}"}},
                }
            ),
            [Hint("s3://b/j 1", (INDEX,))],
        ),
        (
            json.dumps({"tocsin": "hint", "run": "s3://b/j", "tick": None, "why": "collections"}),
            [Hint("s3://b/j", configures=True)],
        ),
        (
            json.dumps({"tocsin": "hint", "run": "s3://b/j", "tick": 5.0, "why": "patrol"}),
            [Hint("s3://b/j", (), 5.0)],
        ),
        (
            json.dumps(
                {
                    "source": "aws.sagemaker",
                    "detail": {
                        "TrainingJobName": "j",
                        "TrainingJobArn": "arn:job",
                        "TrainingJobStatus": "Stopped",
                    },
                }
            ),
            [JobEnded("j", "arn:job")],
        ),
        (
            json.dumps(
                {
                    "source": "aws.sagemaker",
                    "detail": {"TrainingJobName": "j", "TrainingJobStatus": "InProgress"},
                }
            ),
            [],
        ),
    ],
)
def test_messages_of_every_kind(body: str, expected: list[object]) -> None:
    assert parse_message(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"Records": [{}]}',
        '{"Records": 3}',
        '{"tocsin": "hint"}',
        '{"tocsin": "hint", "run": "file:///etc"}',
        '{"source": "aws.sagemaker", "detail": []}',
        '{"detail-type": "Object Created", "detail": {"bucket": "b"}}',
    ],
)
def test_what_is_no_message_is_said_in_one_line(body: str) -> None:
    with pytest.raises(BadMessage) as error:
        parse_message(body)
    assert "\n" not in str(error.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
keys = st.sampled_from(["Records", "tocsin", "run", "tick", "detail-type", "detail", "source"])


@given(st.dictionaries(keys, json_values | st.sampled_from(["hint", "Object Created"])))
def test_any_json_gives_hints_or_bad_message(content: dict[str, object]) -> None:
    try:
        hints = parse_message(json.dumps(content))
    except BadMessage:
        return
    assert all(isinstance(hint, Hint | JobEnded) for hint in hints)
