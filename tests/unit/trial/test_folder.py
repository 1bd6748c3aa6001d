"""A run in a folder."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tocsin.tensors import (
    END_MARKER,
    LocalStorage,
    NotFound,
    TooLarge,
    Truncated,
    Unreadable,
    event_key,
    index_key,
)
from tocsin.tensors.storage import Outside
from tocsin.trial import create_trial
from tocsin.trial import folder as folder_module
from tocsin.trial.folder import Folder
from tocsin.trial.source import StepRange

from tests.irregular import IRREGULAR, in_time


@pytest.fixture
def folder(run):
    run.collections().step(0).step(1)
    return Folder(LocalStorage(run.path), StepRange())


def _open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _news(folder):
    found = folder.new_files()
    return [one.step for one, _ in zip(found, folder.indexes(found), strict=True)]


def test_news(run, folder):
    assert _news(folder) == [0, 1]
    assert _news(folder) == []
    run.step(5).step(3).step(5000).step(3, "worker_1")
    run.step(1, tensors={"other": 1.0})  # written again
    assert _news(folder) == [1, 3, 3, 5, 5000]
    (run.path / index_key(3, "worker_0")).unlink()
    assert _news(folder) == []


def test_news_that_were_not_read_are_told_again(folder):
    assert [found.step for found in folder.new_files()] == [0, 1]
    found = folder.new_files()
    next(iter(folder.indexes(found)))
    assert len(folder.new_files()) == 2


def test_other_files_are_no_news(run, folder):
    (run.path / "index" / "note.txt").touch()
    (run.path / "index" / "000000000" / "note.txt").touch()
    (run.path / "index" / "000000000" / "000000000002_worker_0.csv").touch()
    (run.path / "index" / "000000000" / "000000000002_worker_0.json").mkdir()
    assert _news(folder) == [0, 1, 2]
    assert run.trial().steps() == [0, 1]
    assert list(run.trial().damaged) == [index_key(2, "worker_0")]


@pytest.mark.parametrize(
    ("key", "start", "length", "error"),
    [
        ("events/000000000009/000000000009_worker_0.tfevents", 0, 1, NotFound),
        ("events/x/y", 0, 1, NotFound),
        (event_key(0, "worker_0") + "/x", 0, 1, NotFound),
        (event_key(0, "worker_0"), 0, 10**15, Truncated),
        (event_key(0, "worker_0"), 10**15, 1, Truncated),
        (event_key(0, "worker_0"), 50, 100_000, Truncated),
        ("../outside", 0, 1, Outside),
        ("events/../../outside", 0, 1, Outside),
    ],
)
def test_reading_what_is_not_there(run, folder, key, start, length, error):
    (run.path.parent / "outside").write_text("secret")
    with pytest.raises(error) as caught:
        folder.read(key, start, length)
    assert type(caught.value) is error


def test_a_system_that_reads_piecemeal(run, monkeypatch):
    """Linux reads at most 2 GiB at a time."""
    value = np.arange(50_000.0)
    run.collections().step(0, tensors={"x": value})
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, parts, at: whole(file, [parts[0][:1000]], at))
    np.testing.assert_array_equal(run.trial().tensor("x").value(0), value)


def test_a_file_that_shrinks(run, folder):
    run.step(2, tensors={"x": np.arange(50_000.0)})
    for step in (0, 2):
        key = event_key(step, "worker_0")
        size = (run.path / key).stat().st_size
        assert len(folder.read(key, 0, size)) == size
        os.truncate(run.path / key, size - 1)
        with pytest.raises(Truncated):
            folder.read(key, 0, size)


def test_links_may_not_lead_out(run, tmp_path):
    run.collections().step(0).step(1).step(2)
    outside = tmp_path / "outside"
    events = run.path / "events"
    shutil.move(events / "000000000000", outside)
    (events / "000000000000").symlink_to(outside)
    one = run.path / event_key(1, "worker_0")
    shutil.move(one, tmp_path / "one")
    one.symlink_to(tmp_path / "one")
    two = run.path / event_key(2, "worker_0")
    shutil.move(two, events / "two")
    two.symlink_to(events / "two")
    tensor = run.trial().tensor("loss")
    for step in (0, 1):
        with pytest.raises(Unreadable, match="points outside of the run"):
            tensor.value(step)
    assert tensor.value(2).item() == 2


def test_an_index_file_may_be_a_link_within_the_run(run, tmp_path):
    run.collections().step(0).step(1)
    for step, home in ((0, run.path / "here"), (1, tmp_path / "there")):
        path = run.path / index_key(step, "worker_0")
        shutil.move(path, home)
        path.symlink_to(home)
    trial = run.trial()
    assert trial.steps() == [0]
    assert "points outside of the run" in trial.damaged[index_key(1, "worker_0")]


@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_regular_file_is_refused(run, kind):
    run.collections().step(0).step(1).step(2)
    index, event = index_key(0, "worker_0"), event_key(1, "worker_0")
    for key in (index, event, END_MARKER):
        (run.path / key).unlink(missing_ok=True)
        IRREGULAR[kind](run.path / key)
    trial = in_time(run.trial)
    assert in_time(trial.steps) == [1, 2]
    assert trial.damaged == {
        key: f"{key} of run {run.path} is {kind}, not a file: remove it"
        for key in (index, END_MARKER)
    }
    with pytest.raises(Unreadable, match=f"{event} of run {run.path} is {kind}, not a file"):
        in_time(lambda: trial.tensor("loss").value(1))
    assert trial.tensor("loss").value(2).item() == 2


def test_a_run_behind_a_link(run, tmp_path):
    run.collections().step(0)
    (tmp_path / "link").symlink_to(run.path)
    assert create_trial(tmp_path / "link").tensor("loss").value(0).item() == 0


def test_a_huge_index_file_is_not_read(run, folder, monkeypatch):
    monkeypatch.setattr(folder_module, "_LIMIT", 100)
    found = folder.new_files()
    assert [type(index) for index in folder.indexes(found)] == [TooLarge, TooLarge]


def test_open_files_are_bounded_and_closed(run, monkeypatch):
    monkeypatch.setattr(folder_module, "_OPEN", 3)
    run.collections()
    for step in range(10):
        run.step(step)
    trial = run.trial()
    gc.collect()  # trials of other tests
    before = _open_files()
    for step in range(10):
        trial.tensor("loss").value(step)
    assert _open_files() == before + 3
    del trial
    gc.collect()
    assert _open_files() == before


def test_a_refresh_looks_only_where_something_changed(run, monkeypatch):
    for step in (1, 1001, 2001):
        run.collections().step(step)
    before = 1_600_000_000
    for folder in (run.path / "index", *(run.path / "index").iterdir()):
        os.utime(folder, (before, before))
    trial = run.trial()
    looked = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(str(path)) or scandir(path))
    assert trial.steps() == [1, 1001, 2001]
    assert looked == []
    run.step(1002)
    assert trial.steps() == [1, 1001, 1002, 2001]
    assert [path.rstrip("/").rpartition("/")[2] for path in looked] == ["000000001"]
