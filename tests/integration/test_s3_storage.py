"""Runs in S3."""

from __future__ import annotations

import itertools
from pathlib import Path

import boto3
import numpy as np
import pytest
from tocsin.cli.errors import CommandError
from tocsin.cli.step_trace import trace_of
from tocsin.model import Mode
from tocsin.report.step_trace import newest_trace
from tocsin.tensors import (
    Captured,
    LocalStorage,
    NotFound,
    RunWriter,
    S3Storage,
    TooLarge,
    Truncated,
    Unreadable,
    event_key,
    index_key,
    open_storage,
    read_values,
    trace_key,
)
from tocsin.trial import NotARun, snapshot
from tocsin_hooks.recorder import StepRecorder

FIXTURES = Path(__file__).parents[1] / "fixtures" / "smdebug"
BUCKET = "capture"


@pytest.fixture
def client(aws_in_process):
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def storage(client):
    return S3Storage(f"s3://{BUCKET}/jobs/j1/debug-output", client)


@pytest.fixture
def calls(client):
    """The names of the operations that are sent from here on, with their parameters."""
    sent = []
    client.meta.events.register(
        "before-parameter-build.s3.*", lambda params, model, **_: sent.append((model.name, params))
    )
    return sent


def _keys(found):
    return [o.key for o in found]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://capture/a/b", "s3://capture/a/b"),
        ("s3://capture/a/b/", "s3://capture/a/b"),
        ("s3://capture", "s3://capture"),
        ("s3://capture/", "s3://capture"),
    ],
)
def test_url(client, url, expected):
    storage = open_storage(url, client)
    assert storage.url == expected
    storage.write("x/y", b"1")
    assert _keys(storage.list("")) == ["x/y"]
    assert storage.read("x/y") == b"1"


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "capture/prefix"])
def test_urls_that_are_none(client, url):
    with pytest.raises(ValueError, match="s3://bucket/prefix"):
        S3Storage(url, client)


def test_listing(storage, client):
    for key in ("d/1_w", "d/2_w", "d/2_x", "d/3_w.tmp", "e", "d/"):
        storage.write(key, b"abc")
    client.put_object(Bucket=BUCKET, Key="jobs/j1/debug-output-2/d/9_w", Body=b"")
    assert _keys(storage.list("d/")) == ["d/1_w", "d/2_w", "d/2_x"]
    assert _keys(storage.list("d/", after="d/1_w")) == ["d/2_w", "d/2_x"]
    assert _keys(storage.list("d/", after="d/2`")) == []
    assert _keys(storage.list("d/2")) == ["d/2_w", "d/2_x"]
    assert _keys(storage.list("")) == ["d/1_w", "d/2_w", "d/2_x", "e"]
    (found,) = storage.list("e")
    assert (found.size, found) == (3, storage.head("e"))
    assert found.modified > 1.6e9


def test_listing_is_lazily_paged(storage, calls):
    for number in range(1100):
        storage.write(f"d/{number:05d}", b"")
    calls.clear()
    listing = storage.list("d/")
    assert calls == []
    assert len(list(itertools.islice(listing, 1000))) == 1000
    assert [name for name, _ in calls] == ["ListObjectsV2"]
    assert len(list(listing)) == 100
    assert [name for name, _ in calls] == ["ListObjectsV2"] * 2


def test_missing(storage):
    for read in (storage.read, storage.head, lambda key: storage.read_ranges(key, [(0, 1)])):
        with pytest.raises(NotFound, match="run s3://capture/jobs/j1/debug-output has no file k"):
            read("k")


def test_limit(storage):
    storage.write("k", b"12345")
    assert storage.read("k", limit=5) == b"12345"
    with pytest.raises(TooLarge):
        storage.read("k", limit=4)


def test_neighbours_are_one_request(storage, calls):
    data = bytes(range(256)) * 1024
    storage.write("k", data)
    calls.clear()
    ranges = [(200_000, 10), (0, 4), (100, 4), (64 * 1024, 4)]
    assert storage.read_ranges("k", ranges) == [data[s : s + n] for s, n in ranges]
    assert sorted(parameters["Range"] for _, parameters in calls) == [
        "bytes=0-65539",
        "bytes=200000-200009",
    ]


@pytest.mark.parametrize("bad", [(3, 3), (5, 1), (2**50, 1), (0, 2**50)])
def test_ranges_beyond_the_end(storage, bad):
    storage.write("k", b"12345")
    with pytest.raises(Truncated):
        storage.read_ranges("k", [bad])


def test_empty_ranges(storage):
    storage.write("k", b"12345")
    assert storage.read_ranges("k", []) == []
    assert storage.read_ranges("k", [(2, 0), (2, 1)]) == [b"", b"3"]
    assert storage.read_ranges("k", [(2, 0)]) == [b""]


@pytest.mark.parametrize("name", ["torch_mlp", "multi_worker", "dtypes"])
def test_runs_read_the_same_from_s3(storage, name):
    local = LocalStorage(FIXTURES / name / "run")
    for found in local.list(""):
        storage.write(found.key, local.read(found.key))
    here, there = snapshot(local), snapshot(storage)
    assert there.name == "j1"
    assert (there.steps(), there.workers()) == (here.steps(), here.workers())
    assert there.collections() == here.collections()
    for step in here.steps():
        assert there.index_files(step) == here.index_files(step)
        for index in here.index_files(step):
            mine, theirs = read_values(local, index), read_values(storage, index)
            assert list(theirs) == list(mine)
            for tensor, value in mine.items():
                np.testing.assert_array_equal(theirs[tensor], value)


def test_a_run_written_to_s3(storage, calls):
    writer = RunWriter(storage, run_id="r")
    writer.write(0, Mode.TRAIN, 0, [Captured("loss", 0.5)])
    writer.close()
    keys = [event_key(0, "worker_0"), index_key(0, "worker_0"), "training_job_end.ts"]
    assert [(n, p["Key"].partition("debug-output/")[2]) for n, p in calls] == [
        ("PutObject", key) for key in keys
    ]
    run = snapshot(storage)
    assert run.loaded_all_steps
    assert run.tensor("loss").value(0).tolist() == [0.5]


def test_damage(storage):
    writer = RunWriter(storage)
    for step in (0, 1, 2):
        tensors = [Captured("a", [1.0] * 9), Captured("b", [2.0] * 9)]
        writer.write(step, Mode.TRAIN, step, tensors)
    storage.write(index_key(0, "worker_0"), b"{")
    whole = storage.read(event_key(1, "worker_0"))
    storage.write(event_key(1, "worker_0"), whole[:-3])
    run = snapshot(storage)
    assert list(run.damaged) == [index_key(0, "worker_0")]
    (index,) = run.index_files(1)
    values = read_values(storage, index)
    assert values["a"].tolist() == [1.0] * 9
    assert isinstance(values["b"], Unreadable)
    assert f"ends at byte {len(whole) - 3}" in str(values["b"])
    assert run.tensor("b").value(2).tolist() == [2.0] * 9


@pytest.mark.parametrize("url", [f"s3://{BUCKET}/none", "s3://no-such-bucket/run"])
def test_a_place_that_is_no_run(client, url):
    with pytest.raises(NotARun, match=r"neither index/ nor collections/|no such bucket"):
        snapshot(open_storage(url, client))


def test_no_access(storage, client, monkeypatch):
    def denied(**_):
        raise client.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")

    monkeypatch.setattr(client, "get_object", denied)
    with pytest.raises(PermissionError, match="no access to k of run s3://"):
        storage.read("k")


def test_our_own_client_is_bounded(client):
    config = S3Storage(f"s3://{BUCKET}/run")._client.meta.config
    assert config.retries["mode"] == "standard"
    assert config.max_pool_connections == 16


def test_a_step_trace_is_asked_for_and_answered(storage):
    """There is no PyTorch here: the hook answers so, and the command says it."""
    recorder = StepRecorder(storage, "worker_0", 0.0)
    recorder.look()  # there is no request yet
    looks = iter(range(9))

    def wait(seconds):
        assert next(looks) < 3
        recorder.look()

    with pytest.raises(CommandError, match="no trace was made: the training does not use PyTorch"):
        trace_of(storage, 3, 60.0, lambda line: None, wait)
    storage.write(trace_key("worker_0", 7), b"none")
    assert "not a gzip" in newest_trace(storage).problem
