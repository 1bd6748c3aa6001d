"""Opening a run."""

from __future__ import annotations

import pytest
from tocsin.model import Mode
from tocsin.tensors import BadCollections, Collection, collections_key, index_key, open_storage
from tocsin.trial import MissingCollectionFiles, NotARun, create_trial, snapshot


def test_a_path_in_any_form(run):
    run.collections().step(0)
    for path in (run.path, str(run.path), f"  {run.path}/ \n"):
        trial = create_trial(path)
        assert (trial.path, trial.name, trial.steps()) == (str(run.path), "run", [0])
    assert create_trial(run.path, "mine").name == "mine"
    assert repr(trial) == f"Trial({str(run.path)!r})"


def test_the_run_of_a_job_is_named_in_the_message(run):
    run.path = run.path / "debug-output"
    run.storage = type(run.storage)(run.path)
    run.collections().step(0)
    with pytest.raises(NotARun, match=r"did you mean .*/run/debug-output\?"):
        create_trial(run.path.parent)
    assert run.trial().name == "run"


@pytest.mark.parametrize(
    ("range_steps", "steps"),
    [
        (None, [0, 10, 20, 30]),
        ((None, None), [0, 10, 20, 30]),
        ((10, 30), [10, 20]),
        ((11, None), [20, 30]),
        ((None, 10), [0]),
        ((0, 1), [0]),
        ((40, 50), []),
    ],
)
def test_range_of_steps(run, range_steps, steps):
    run.collections()
    for step in (0, 10, 20, 30):
        run.step(step, mode_step=step // 10)
    trial = run.trial(range_steps=range_steps)
    assert trial.steps() == steps
    assert trial.steps(Mode.TRAIN) == [step // 10 for step in steps]
    run.step(15, mode_step=4)
    assert (15 in trial.steps()) is (range_steps in (None, (None, None), (10, 30), (11, None)))


@pytest.mark.parametrize("range_steps", [(-1, 5), (5, 5), (5, 3), (None, 0)])
def test_ranges_that_are_none(run, range_steps):
    with pytest.raises(ValueError, match="range_steps"):
        run.trial(range_steps=range_steps)


def test_profiler_data_is_not_read(run):
    with pytest.raises(ValueError, match="profiler"):
        run.trial(profiler=True)


@pytest.mark.parametrize(("workers", "files", "said"), [(3, 2, "2 of 3"), (1, 0, "0 coll")])
def test_a_run_that_ended_without_its_collections(run, workers, files, said):
    run.step(0, *(f"worker_{number}" for number in range(workers))).end()
    if files:
        run.collections(workers, *(f"worker_{number}" for number in range(files)))
    with pytest.raises(MissingCollectionFiles, match=f"{run.path} has ended with {said}.*partial"):
        run.trial()
    trial = run.trial(partial=True)
    assert (trial.num_workers, trial.steps(), trial.loaded_all_steps) == (workers, [0], True)
    assert trial.workers() == [f"worker_{number}" for number in range(workers)]


def test_an_ended_run_without_anything(run):
    run.end()
    for partial in (False, True):
        with pytest.raises(MissingCollectionFiles, match="with 0 collections files"):
            run.trial(partial=partial)


def test_damaged_collections(run):
    run.step(0)
    run.storage.write("collections/000000000/worker_0_collections.json", b"{")
    with pytest.raises(BadCollections, match=r"worker_0_collections\.json of run"):
        run.trial()
    trial = run.trial(partial=True)
    assert list(trial.damaged) == ["collections/"]
    assert (trial.steps(), trial.steps(show_incomplete_steps=True)) == ([], [0])
    run.collections()
    assert (trial.damaged, trial.steps(), trial.num_workers) == ({}, [0], 1)


def test_a_run_that_has_just_begun(run):
    """How many workers there are is known only from a collections file."""
    trial = run.step(0).trial()
    assert (trial.num_workers, trial.workers(), trial.collections()) == (0, ["worker_0"], {})
    assert (trial.steps(), trial.steps(show_incomplete_steps=True)) == ([], [0])
    assert trial.tensor("loss").value(0).item() == 0
    run.collections(collections=[Collection("losses", tensor_names=("loss",))])
    assert trial.steps() == [0]
    assert trial.tensor_names(collection="losses") == ["loss"]


def test_waiting_for_a_run_to_begin(run, time):
    time.at(3, lambda: run.step(0))
    time.at(5, lambda: run.collections(2, "worker_0"))
    time.at(7, lambda: run.collections(2))
    trial = run.trial(timeout=60, clock=time.clock())
    assert time.now == 7
    assert trial.workers() == ["worker_0", "worker_1"]


def test_waiting_not_longer_than_asked_for(run, time):
    time.at(3, lambda: run.step(0).collections(2, "worker_0"))
    assert run.trial(timeout=4.5, clock=time.clock()).num_workers == 2
    assert time.now == 4.5


def test_waiting_ends_with_the_run(run, time):
    time.at(2, lambda: run.step(0).collections(2, "worker_0").end())
    with pytest.raises(MissingCollectionFiles, match="1 of 2"):
        run.trial(timeout=60, clock=time.clock())
    assert time.now == 2


@pytest.mark.parametrize("path", ["nothing", "file", "run/index"])
def test_a_wrong_path_raises_at_once(run, time, path):
    run.collections().step(0)
    (run.path.parent / "file").touch()
    with pytest.raises(NotARun, match=f"{path} is not a run.*timeout"):
        create_trial(run.path.parent / path, clock=time.clock())
    assert time.slept == []


# -- as it is now -----------------------------------------------------------------------------


@pytest.mark.parametrize("files", [[], ["notes.txt"], ["events/x"], ["training_job_end.ts"]])
def test_a_snapshot_of_no_run(tmp_path, files):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(NotARun) as refused:
        snapshot(open_storage(tmp_path))
    assert str(refused.value) == f"{tmp_path} is not a run: it has neither index/ nor collections/"


def test_a_snapshot_of_collections_alone(run):
    run.collections(3, "worker_0")
    now = snapshot(run.storage)
    assert (now.steps(), now.workers(), now.num_workers) == ([], ["worker_0"], 3)


def test_a_snapshot_without_collections_counts_the_workers_that_wrote(run):
    run.step(0, "worker_0", "worker_1").step(10, "worker_0")
    now = snapshot(run.storage)
    assert (now.steps(), now.workers()) == ([0], ["worker_0", "worker_1"])
    run.end()
    assert (now.steps(), now.loaded_all_steps) == ([0], False)  # of then
    assert snapshot(run.storage).steps() == [0, 10]


def test_a_snapshot_of_a_damaged_run(run):
    run.collections(2).step(0, "worker_0", "worker_1").step(10, "worker_0", "worker_1").end()
    run.storage.write(index_key(0, "worker_0"), b"")
    run.storage.write(collections_key("worker_1"), b"")
    now = snapshot(run.storage)
    assert list(now.damaged) == [index_key(0, "worker_0"), "collections/"]
    assert now.damaged[index_key(0, "worker_0")] == "file is empty"
    assert now.steps() == [0, 10]
    assert [index.worker for index in now.index_files(0)] == ["worker_1"]
    assert now.index_files(5) == []
