from __future__ import annotations

import shutil

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    Collection,
    LocalStorage,
    NotARun,
    Run,
    RunWriter,
    Unreadable,
    collections_key,
    event_key,
    index_key,
    open_storage,
)


@pytest.fixture
def folder(named_sample, tmp_path):
    """A copy of a run of two workers that may be damaged."""
    path = tmp_path / "run"
    shutil.copytree(named_sample("multi_worker").path, path)
    return path


def _run(folder):
    return Run(open_storage(folder))


@pytest.mark.parametrize("files", [[], ["notes.txt"], ["events/x"], ["training_job_end.ts"]])
def test_a_place_that_is_no_run(tmp_path, files):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(NotARun) as refused:
        _run(tmp_path)
    assert str(refused.value) == f"{tmp_path} is not a run: it has neither index/ nor collections/"


def test_a_place_that_is_not_there(tmp_path):
    with pytest.raises(NotARun):
        _run(tmp_path / "none")


def test_collections_alone_are_a_run(tmp_path):
    RunWriter(open_storage(tmp_path)).write_collections([Collection("c")], 3)
    run = _run(tmp_path)
    assert (run.steps(), run.workers, run.num_workers) == ([], ("worker_0",), 3)


def test_index_files_alone_are_a_run(folder):
    shutil.rmtree(folder / "collections")
    run = _run(folder)
    assert run.collections is None
    assert (run.num_workers, run.workers) == (2, ("worker_0", "worker_1"))
    assert run.steps(Mode.EVAL) == [0]


def test_values(folder):
    run = _run(folder)
    assert run.value(10, "fc/bias").tolist() == run.value(10, "fc/bias", "worker_0").tolist()
    assert run.value(10, "fc/bias", "worker_1").tolist() != run.value(10, "fc/bias").tolist()
    assert set(run.values(10, "worker_1", {"loss", "none"})) == {"loss"}
    assert run.values(20, "worker_1") == {}
    assert run.job == "run"


@pytest.mark.parametrize(
    ("step", "name", "worker"),
    [(10, "none", None), (11, "fc/bias", None), (20, "fc/bias", "worker_1"), (10, "loss", "w")],
)
def test_values_that_were_not_saved(folder, step, name, worker):
    with pytest.raises(LookupError, match=f"no value of {name} was saved at step {step}"):
        _run(folder).value(step, name, worker)


def test_the_mode_of_a_step_that_is_not_there(folder):
    with pytest.raises(LookupError, match="no step 11"):
        _run(folder).mode(11)


@pytest.mark.parametrize("data", [b"", b"{", b'{"meta": {}}', b"{}{}"])
def test_a_damaged_index_file(folder, data):
    key = index_key(10, "worker_0")
    (folder / key).write_bytes(data)
    run = _run(folder)
    assert list(run.damaged) == [key]
    assert run.damaged[key]
    assert run.steps() == [0, 5, 10, 20, 30, 40]
    assert list(run.indexes(10)) == ["worker_1"]
    assert np.isfinite(run.value(10, "loss")).all()


def test_a_step_without_a_readable_index_file(folder):
    (folder / index_key(20, "worker_0")).write_bytes(b"")
    run = _run(folder)
    assert run.steps() == [0, 5, 10, 30, 40]
    assert run.steps(Mode.TRAIN) == [0, 10, 30, 40]
    assert run.damaged == {index_key(20, "worker_0"): "file is empty"}


def test_damaged_collections(folder):
    (folder / collections_key("worker_1")).write_bytes(b"")
    run = _run(folder)
    assert run.collections is None
    assert "worker_1_collections.json" in "".join(run.damaged.values())
    assert run.num_workers == 2


def test_files_being_written(folder):
    for key in (index_key(50, "worker_0"), collections_key("worker_9")):
        (folder / f"{key}.tmp").write_bytes(b"{")
    run = _run(folder)
    assert run.damaged == {}
    assert 50 not in run.steps(incomplete=True)
    assert run.workers == ("worker_0", "worker_1")


def test_a_missing_event_file(folder):
    (folder / event_key(20, "worker_0")).unlink()
    run = _run(folder)
    with pytest.raises(Unreadable, match="missing"):
        run.value(20, "loss")
    assert run.value(30, "loss").size == 1


def test_files_that_are_none_of_ours(folder):
    (folder / "index/000000000/notes.json").write_bytes(b"{}")
    (folder / "index/000000000/000000000010_worker_0.csv").write_bytes(b"")
    assert _run(folder).damaged == {}


def test_a_mode_step_that_two_global_steps_share(tmp_path):
    """A job that was started again counts its modes anew; the numbers are listed once."""
    writer = RunWriter(open_storage(tmp_path))
    for step, mode_step in ((0, 0), (1, 1), (2, 1), (3, 2)):
        writer.write(step, Mode.TRAIN, mode_step, [Captured("t", 1.0)])
    assert _run(tmp_path).steps(Mode.TRAIN) == [0, 1, 2]


def test_steps_of_many_digits_are_in_order(tmp_path):
    writer = RunWriter(open_storage(tmp_path))
    steps = [5, 1000, 999_999_999_999, 1_000_000_000_000]
    for step in steps:
        writer.write(step, Mode.TRAIN, step, [Captured("t", 1.0)])
    assert _run(tmp_path).steps() == steps


def _started(storage, run_id, steps, *, resumed=None, ended=False):
    writer = RunWriter(storage, run_id=run_id, resumed_from=resumed)
    for step in steps:
        writer.write(step, Mode.TRAIN, step, [Captured("loss", float(step))])
    writer.close(marker=ended)


@pytest.mark.parametrize(
    ("resumed", "steps", "expected"),
    [(None, range(0, 60, 10), range(0, 60, 10)), (50, range(60, 90, 10), range(0, 90, 10))],
)
def test_of_several_starts_the_last_one_counts(tmp_path, resumed, steps, expected):
    storage = LocalStorage(tmp_path)
    _started(storage, "a", range(0, 110, 10), ended=True)
    _started(storage, "b", steps, resumed=resumed)
    run = Run(storage)
    assert (run.steps(), run.steps(Mode.TRAIN)) == (list(expected), list(expected))
    assert not run.finished
    assert run.damaged == {}
    _started(storage, "b", [], ended=True)
    assert Run(storage).finished


def test_a_run_that_has_ended_says_so_without_reading_it(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    _started(storage, "a", range(3), ended=True)
    monkeypatch.setattr(Run, "_read_index", None)
    assert Run(storage).finished
