from __future__ import annotations

import pytest
from tocsin.tensors import (
    after_step,
    collections_key,
    event_key,
    index_key,
    is_machine_run,
    is_same_run,
    job_name,
    machine_run,
    parse_collections_key,
    parse_index_key,
    split_key,
    step_text,
    writes_to,
)
from tocsin.tensors.layout import resolve_event

DEVICE = "/job:worker/replica:0/task:1/device:GPU:0"


@pytest.mark.parametrize(
    ("step", "worker", "key"),
    [
        (0, "worker_0", "index/000000000/000000000000_worker_0.json"),
        (999, "worker_0", "index/000000000/000000000999_worker_0.json"),
        (1000, "worker_12", "index/000000001/000000001000_worker_12.json"),
        (123456789012, "worker_0", "index/123456789/123456789012_worker_0.json"),
        (1234567890123, "w", "index/1234567890/1234567890123_w.json"),
        (
            100,
            DEVICE,
            "index/000000000/000000000100__job-worker_replica-0_task-1_device-GPU-0.json",
        ),
        (5, "a__b-c.d", "index/000000000/000000000005_a__b-c.d.json"),
    ],
)
def test_index_key_and_back(step, worker, key):
    assert index_key(step, worker) == key
    assert parse_index_key(key) == (step, worker)


@pytest.mark.parametrize(
    "key",
    [
        "index/000000000/000000000000_worker_0.json.tmp",
        "index/000000000/000000000000_worker_0.csv",
        "index/000000000/000000000000_.json",
        "index/000000000/00000000000_worker_0.json",  # too short
        "index/000000000/0000000000000_worker_0.json",  # padded twice
        "index/000000001/000000000000_worker_0.json",  # wrong folder
        "index/0000000000/000000000000_worker_0.json",
        "index/000000000/-00000000001_worker_0.json",
        "index/000000000/000000000000_a/b.json",
        "index/9999999999999999999999/9999999999999999999999999_w.json",
        "x/index/000000000/000000000000_worker_0.json",
        "index/000000000/000000000000_worker_0.json\n",
        "index/000000000/٠٠٠٠٠٠٠٠٠٠٠٠_worker_0.json",  # digits, but not ours
        "training_job_end.ts",
        "",
    ],
)
def test_other_files_are_no_index(key):
    assert parse_index_key(key) is None


@pytest.mark.parametrize(("step", "worker"), [(-1, "w"), (10**18, "w"), (0, ""), (0, "w" * 256)])
def test_what_has_no_place_is_refused(step, worker):
    with pytest.raises(ValueError):
        index_key(step, worker)


def test_event_key():
    assert event_key(7, "worker_0") == "events/000000000007/000000000007_worker_0.tfevents"
    assert event_key(7, "/a:0") == "events/000000000007/000000000007__a-0.tfevents"


def test_collections_key_and_back():
    key = collections_key("worker_1")
    assert key == "collections/000000000/worker_1_collections.json"
    assert parse_collections_key(key) == "worker_1"
    assert parse_collections_key(collections_key(DEVICE)) == DEVICE
    assert parse_collections_key(key + ".tmp") is None
    assert parse_collections_key("collections/000000000/_collections.json") is None


@pytest.mark.parametrize("step", [0, 9, 10, 99, 999, 1000, 99_999_999_998])
@pytest.mark.parametrize("worker", ["worker_0", "~", "é", DEVICE])
def test_after_step_lies_between_two_steps(step, worker):
    assert index_key(step, worker) < after_step(step) < index_key(step + 1, worker)


@pytest.mark.parametrize("step", [0, 99_999_999_999, 10**11, 999_999_999_999, 10**12, 10**17])
@pytest.mark.parametrize("later", [10**11, 10**12, 10**13 - 1, 10**18 - 1])
def test_no_later_step_lies_before_after_step(step, later):
    if later > step:
        assert after_step(step) < index_key(later, "w")
    assert after_step(step) > index_key(min(step, 10**11 - 1), "w")


def test_after_no_step_is_the_beginning():
    assert after_step(-1) == "index/"
    assert after_step(-1) < index_key(0, "worker_0")


@pytest.mark.parametrize(
    "name",
    [
        "../events/000000000000/000000000000_worker_0.tfevents",
        "events/../000000000000_worker_0.tfevents",
        "/events/000000000000/000000000000_worker_0.tfevents",
        "s3://other/events/000000000000/000000000000_worker_0.tfevents",
        "events/000000000000/..",
        "events/0/0_a/../../x.tfevents",
        "events/000000000000/000000000000_worker_0.json",
        "index/000000000/000000000000_worker_0.json",
        "events/000000000000/000000000000_worker\0.tfevents",
        "events/0/0_" + "w" * 600 + ".tfevents",
        "",
    ],
)
def test_event_files_lie_inside_the_run(name):
    with pytest.raises(ValueError, match="event_file_name"):
        resolve_event(name)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (
            "jobs/j1/debug-output/index/000000000/000000000010_worker_0.json",
            ("jobs/j1/debug-output", "index/000000000/000000000010_worker_0.json"),
        ),
        (
            "a/index/b/index/000000000/000000000010_worker_0.json",
            ("a/index/b", "index/000000000/000000000010_worker_0.json"),
        ),
        ("r/training_job_end.ts", ("r", "training_job_end.ts")),
        ("training_job_end.ts", ("", "training_job_end.ts")),
        (
            "r/collections/000000000/worker_0_collections.json",
            ("r", "collections/000000000/worker_0_collections.json"),
        ),
        ("r/watch.json", ("r", "watch.json")),
        ("r/STOP.json", None),
        ("r/events/000000000010/000000000010_worker_0.tfevents", None),
        ("r/index/000000000/000000000010_worker_0.json.tmp", None),
        ("r/not_training_job_end.ts", None),
        ("", None),
    ],
)
def test_split_key(key, expected):
    assert split_key(key) == expected


@pytest.mark.parametrize(
    ("url", "job"),
    [
        ("s3://b/jobs/j1/debug-output", "j1"),
        ("s3://b/jobs/j1/debug-output/", "j1"),
        ("s3://b/jobs/j1", "j1"),
        ("s3://b", "b"),
        ("s3://b/debug-output", "b"),
        ("s3://b/debug-output/j2", "j2"),
        ("/data/runs/j3", "j3"),
        ("/data/runs/j3/debug-output", "j3"),
        ("debug-output", "debug-output"),
    ],
)
def test_job_name(url, job):
    assert job_name(url) == job


@pytest.mark.parametrize(
    ("run", "machine"),
    [
        ("s3://b/jobs/j1/debug-output", "s3://b/jobs/j1/profiler-output"),
        ("s3://b/jobs/j1/", "s3://b/jobs/j1/profiler-output"),
        ("/data/runs/j3", "/data/runs/j3/profiler-output"),
    ],
)
def test_a_machine_run_lies_in_the_folder_of_its_job(run, machine):
    assert machine_run(run) == machine
    assert is_machine_run(machine)
    assert not is_machine_run(run)
    assert job_name(machine) == job_name(run)
    key = machine.split("://")[-1].lstrip("/") + "/index/000029923/000029923271_node.json"
    assert split_key(key) is not None


@pytest.mark.parametrize(
    ("output", "run", "expected"),
    [
        ("s3://b/jobs", "s3://b/jobs/j1/profiler-output", True),
        ("s3://b/jobs/j1", "s3://b/jobs/j1/profiler-output", True),
        ("s3://b/jobs/j1/debug-output", "s3://b/jobs/j1/profiler-output", True),
        ("s3://b/jobs", "s3://b/jobs/j1/debug-output/profiler-output", True),  # the container's
        ("s3://b/other", "s3://b/jobs/j1/profiler-output", False),
        ("s3://b/jobs/j2", "s3://b/jobs/j1/profiler-output", False),
    ],
)
def test_a_machine_run_belongs_to_the_job_of_its_training(output, run, expected):
    assert writes_to(output, run) is expected


def test_a_tag_that_names_the_training_run_names_its_machine_run():
    assert is_same_run("s3://b/any/where", "s3://b/any/where/profiler-output")
    assert is_same_run("s3://b/a/debug-output/", "s3://b/a/profiler-output")
    assert not is_same_run("s3://b/a/profiler-output", "s3://b/a/debug-output")
    assert not is_same_run("", "s3://b/profiler-output")


@pytest.mark.parametrize(
    ("run", "step", "text"),
    [
        ("s3://b/j1/debug-output", 29_923_271, "step 29923271"),
        ("s3://b/j1/profiler-output", 29_923_271, "2026-11-23 01:11 UTC"),
        ("s3://b/j1/profiler-output", 1_795_355_000, "step 1795355000"),  # of a hurried demo
    ],
)
def test_a_minute_is_a_time_for_people(run, step, text):
    assert step_text(run, step) == text
