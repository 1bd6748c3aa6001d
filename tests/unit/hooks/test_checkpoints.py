"""Checkpoints of a training: those that a script names, and those in a folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tocsin.model import Mode
from tocsin.tensors import LocalStorage, SavedCheckpoint, index_at
from tocsin_hooks import Hook
from tocsin_hooks.checkpoints import CheckpointFolder, checkpoints_in


def train(hook: Hook, steps: int) -> None:
    for _ in range(steps):
        with hook.step(Mode.TRAIN):
            hook.save("loss", 1.0, "losses")


def named(run: Path, step: int) -> SavedCheckpoint | None:
    file = index_at(LocalStorage(run), step, "worker_0")
    assert file is not None
    assert file.meta is not None
    return file.meta.checkpoint


def test_the_next_saved_step_names_it(tmp_path: Path) -> None:
    hook = Hook(tmp_path / "run", save_interval=1)
    hook.checkpoint("before-the-first-step.pt")
    train(hook, 1)
    hook._session.uploader.close(marker=False, timeout=10)  # type: ignore[union-attr]
    assert named(tmp_path / "run", 0) is None
    again = Hook(tmp_path / "run", save_interval=1, resumed_from=0)
    train(again, 3)
    again.checkpoint(Path("ckpt/3.pt"))
    train(again, 1)
    again.close()
    assert named(tmp_path / "run", 4) == SavedCheckpoint(3, "ckpt/3.pt")


def test_within_a_step_the_step_does_not_count(tmp_path: Path) -> None:
    hook = Hook(tmp_path / "run", save_interval=1)
    train(hook, 2)
    with hook.step(Mode.TRAIN):
        hook.save("loss", 1.0, "losses")
        hook.checkpoint("ckpt.pt")
    hook.close()
    assert named(tmp_path / "run", 2) == SavedCheckpoint(1, "ckpt.pt")


def test_a_step_that_is_written_late_names_the_one_before_its_end(tmp_path: Path) -> None:
    written = threading.Event()

    class Slow(LocalStorage):
        def write(self, key: str, data: bytes) -> None:
            written.wait(60)
            super().write(key, data)

    hook = Hook(Slow(tmp_path / "run"), save_interval=1)
    for number in range(3):
        train(hook, 1)
        hook.checkpoint(f"{number}.pt")
    written.set()
    hook.close()
    named_by = [named(tmp_path / "run", step) for step in range(3)]
    assert named_by == [None, SavedCheckpoint(0, "0.pt"), SavedCheckpoint(1, "1.pt")]


@pytest.mark.parametrize("path", ["", "x" * 1025])
def test_a_path_that_cannot_be_written_never_raises(tmp_path: Path, path: str) -> None:
    hook = Hook(tmp_path / "run", save_interval=1)
    train(hook, 2)
    hook.checkpoint(path)
    train(hook, 1)
    hook.close()
    assert named(tmp_path / "run", 2) is None
    assert hook.stats.errors == 1


def test_a_hook_that_captures_nothing_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN", "0")
    Hook(tmp_path / "run").checkpoint("ckpt.pt")


def test_the_newest_file_of_a_folder_once_it_is_whole(tmp_path: Path) -> None:
    noted: list[tuple[int, str]] = []
    counters = {Mode.GLOBAL: 10}
    watched = CheckpointFolder(
        tmp_path, "s3://b/run", 100.0, counters, lambda *each: noted.append(each)
    )
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    for file, time in ((old, 50.0), (new, 200.0)):
        file.write_bytes(b"part")
        os.utime(file, (time, time))
    watched.look()
    counters[Mode.GLOBAL] = 20
    new.write_bytes(b"part and the rest")  # still being written
    os.utime(new, (201.0, 201.0))
    watched.look()
    assert noted == []
    counters[Mode.GLOBAL] = 30
    watched.look()
    watched.look()
    assert noted == [(18, str(new))]


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    watched = CheckpointFolder(
        tmp_path / "none", "s3://b/run", 0.0, {Mode.GLOBAL: 1}, lambda *each: pytest.fail("noted")
    )
    watched.look()
    assert checkpoints_in(None) is None
    assert checkpoints_in("folder") == Path("folder")


@pytest.mark.parametrize("run", ["", "/j1", "/j1/debug-output"])
def test_a_run_in_the_folder_is_no_checkpoint(tmp_path: Path, run: str) -> None:
    noted: list[tuple[int, str]] = []
    folder, place = tmp_path / "checkpoints", Path(f"{tmp_path}/checkpoints{run}")
    (place / "index").mkdir(parents=True)
    counters = {Mode.GLOBAL: 10}
    watched = CheckpointFolder(folder, str(place), 0.0, counters, lambda *each: noted.append(each))
    watched.look()
    watched.look()
    assert noted == []
