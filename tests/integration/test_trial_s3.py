"""A trial of a run in S3, and the requests that it sends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import boto3
import numpy as np
import pytest
from botocore.stub import Stubber
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    Collection,
    RunWriter,
    S3Storage,
    event_key,
    index_key,
)
from tocsin.trial import (
    Clock,
    MissingCollectionFiles,
    NotARun,
    TensorUnavailableForStep,
    create_trial,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "smdebug"
BUCKET = "capture"
URL = f"s3://{BUCKET}/jobs/j1/debug-output"
NAMES = [f"scalar/metric_{number}" for number in range(5)]


@pytest.fixture
def client(aws_in_process):
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def storage(client):
    return S3Storage(URL, client)


class Requests:
    """The requests that are sent from here on: by operation, and the ranges of the GETs."""

    def __init__(self, client):
        self.sent = []
        client.meta.events.register("before-call.s3", self._count)

    def _count(self, model, params, **_):
        self.sent.append((model.name, params["url_path"], params["headers"].get("Range")))

    def take(self):
        """How many of each there were since the last time."""
        sent, self.sent = self.sent, []
        self.ranges = [spread for _, _, spread in sent if spread]
        return Counter(name for name, _, _ in sent)


@pytest.fixture
def requests(client):
    return Requests(client)


def _write(storage, steps, *, end=True, size=1, workers=1, first=0):
    for worker in range(workers):
        writer = RunWriter(storage, f"worker_{worker}", run_id="r")
        if not first:
            writer.write_collections([Collection("metrics", tensor_names=tuple(NAMES))], workers)
        for number in range(first, first + steps):
            values = [
                Captured(name, np.full(size, number + offset / 8, np.float32))
                for offset, name in enumerate(NAMES)
            ]
            writer.write(number * 10, Mode.TRAIN, number, values)
    if end:
        storage.write("training_job_end.ts", b"")


def _upload(client, name, prefix):
    path = FIXTURES / name / "run"
    for file in sorted(path.rglob("*")):
        if file.is_file():
            key = f"{prefix}/{file.relative_to(path)}"
            client.put_object(Bucket=BUCKET, Key=key, Body=file.read_bytes())


@pytest.mark.parametrize("end", [True, False], ids=["ended", "running"])
def test_200_values_of_40_steps(client, storage, requests, end):
    """Opening the run, and then reading 200 values of it one at a time: each of the two takes at
    most 45 GETs and 3 LISTs, of which 40 are an index, or an event file, for each step.
    """
    _write(storage, 40, end=end)
    requests.take()
    now = 0.0
    trial = create_trial(URL, client=client, clock=Clock(monotonic=lambda: now))
    steps = trial.steps()
    names = trial.tensor_names(regex="^scalar")
    opening = requests.take()
    assert opening == {"GetObject": 41, "ListObjectsV2": 2, "HeadObject": 1}

    values = {(name, step): trial.tensor(name).value(step) for name in names for step in steps}
    reading = requests.take()
    assert len(values) == 200
    assert reading == {"GetObject": 40}
    assert all(
        value.item() == step / 10 + NAMES.index(name) / 8 for (name, step), value in values.items()
    )
    assert opening["GetObject"] <= 45
    assert reading["GetObject"] <= 45
    assert max(opening["ListObjectsV2"], reading["ListObjectsV2"]) <= 3


def test_all_values_of_a_tensor_are_fetched_together(client, storage, requests):
    _write(storage, 40)
    trial = create_trial(URL, client=client)
    requests.take()
    assert [value.item() for value in trial.tensor(NAMES[2]).values().values()] == [
        number + 0.25 for number in range(40)
    ]
    assert requests.take() == {"GetObject": 40}
    trial.tensor(NAMES[0]).values(Mode.TRAIN)
    assert requests.take() == {}


def test_neighbours_are_fetched_up_to_a_block(client, storage, requests):
    _write(storage, 2, size=10_000)  # 40 kB each: five of them are more than a block may be apart
    trial = create_trial(URL, client=client)
    requests.take()
    for name in NAMES:
        assert trial.tensor(name).value(10)[0] == 1 + NAMES.index(name) / 8
    assert requests.take() == {"GetObject": 1}
    _write(storage, 1, size=100_000)  # 400 kB each stand alone
    trial.refresh()
    requests.take()
    for _ in range(2):
        assert trial.tensor(NAMES[3]).value(0)[0] == 0.375
    assert requests.take() == {"GetObject": 1}
    assert len(requests.ranges) == 1


def test_looking_for_news(client, storage, requests):
    """A LIST and a HEAD, at most once a second."""
    _write(storage, 10, end=False)
    now = 0.0
    trial = create_trial(URL, client=client, clock=Clock(monotonic=lambda: now))
    requests.take()
    for _ in range(50):
        trial.steps()
        trial.has_tensor("nothing")
    assert requests.take() == {}
    now = 1.0
    assert len(trial.steps()) == 10
    assert requests.take() == {"ListObjectsV2": 1, "HeadObject": 1}
    _write(storage, 3, end=False, first=10)
    requests.take()
    now = 2.0
    assert len(trial.steps()) == 13
    assert requests.take() == {"ListObjectsV2": 1, "HeadObject": 1, "GetObject": 3}
    storage.write("training_job_end.ts", b"")
    now = 3.0
    assert trial.loaded_all_steps
    requests.take()
    now = 4.0
    trial.steps()
    assert requests.take() == {}


def test_the_listing_begins_after_what_is_known(client, storage, requests):
    """1,100 index files are two pages; looking again lists only the newest of them."""
    _write(storage, 1, end=False)
    content = storage.read(index_key(0, "worker_0"))
    for step in range(1100):
        storage.write(index_key(step, "worker_0"), content)
    now = 0.0
    trial = create_trial(
        URL, client=client, clock=Clock(monotonic=lambda: now), range_steps=(1000, None)
    )
    assert len(trial.steps()) == 100
    requests.take()
    now = 1.0
    storage.write(index_key(1100, "worker_0"), content)
    storage.write(index_key(1099, "worker_1"), content)  # out of order
    requests.take()
    assert len(trial.steps()) == 101
    assert trial.workers() == ["worker_0", "worker_1"]
    assert requests.take() == {"ListObjectsV2": 1, "HeadObject": 1, "GetObject": 2}


def test_what_came_late_is_found_when_the_run_ends(client, storage):
    for step in range(5, 300):
        RunWriter(storage).write(step, Mode.TRAIN, step, [Captured("loss", 1.0)])
    RunWriter(storage).write_collections([])
    now = 0.0
    trial = create_trial(URL, client=client, clock=Clock(monotonic=lambda: now))
    RunWriter(storage).write(3, Mode.TRAIN, 3, [Captured("loss", 2.0)])
    now = 1.0
    assert trial.steps()[0] == 5
    storage.write("training_job_end.ts", b"")
    now = 2.0
    assert trial.steps()[0] == 3
    assert trial.tensor("loss").value(3).item() == 2.0


@pytest.mark.parametrize("prefix", ["run", "a__b/_run", "deep/er/run"])
def test_a_run_of_smdebug(client, prefix):
    _upload(client, "torch_mlp", prefix)
    there = create_trial(f"s3://{BUCKET}/{prefix}/", client=client)
    here = create_trial(FIXTURES / "torch_mlp" / "run")
    assert there.path == f"s3://{BUCKET}/{prefix}"
    assert there.steps() == here.steps()
    assert there.workers() == here.workers()
    for name in here.tensor_names():
        for step, value in here.tensor(name).values().items():
            np.testing.assert_array_equal(there.tensor(name).value(step), value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (f"s3://{BUCKET}/nothing", "neither index/ nor collections/; pass timeout=60"),
        (f"s3://{BUCKET}/jobs/j1", f"did you mean {URL}"),
        ("s3://no-such-bucket/run", "there is no such bucket"),
    ],
)
def test_wrong_paths(client, storage, url, message):
    _write(storage, 1)
    with pytest.raises(NotARun, match=message):
        create_trial(url, client=client)


def test_missing_files(client, storage):
    _write(storage, 2, workers=2)
    client.delete_object(Bucket=BUCKET, Key=f"jobs/j1/debug-output/{event_key(10, 'worker_0')}")
    trial = create_trial(URL, client=client)
    tensor = trial.tensor(NAMES[0])
    with pytest.raises(TensorUnavailableForStep, match=r"event file events/.* is missing"):
        tensor.value(10)
    with pytest.raises(TensorUnavailableForStep, match=r"event file events/.* is missing"):
        tensor.values()
    assert list(tensor.values(worker="worker_1")) == [0, 10]
    key = "jobs/j1/debug-output/collections/000000000/worker_1_collections.json"
    client.delete_object(Bucket=BUCKET, Key=key)
    with pytest.raises(MissingCollectionFiles, match="1 of 2"):
        create_trial(URL, client=client)


def test_refused(client, storage):
    _write(storage, 1)
    with Stubber(client) as stub:
        stub.add_client_error("head_object", "403", http_status_code=403)
        with pytest.raises(PermissionError, match=f"no access to .* of run {URL}"):
            create_trial(URL, client=client)
