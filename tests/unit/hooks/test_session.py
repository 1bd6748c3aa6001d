"""Where a hook writes, who writes, and how it keeps within its share of time."""

from __future__ import annotations

import io
import json
import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.tensors import LocalStorage, read_collections
from tocsin.watch import Capture, RuleConfig, Watch
from tocsin_hooks import Hook

from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def _container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(tmp_path / "hook.json"))


def train(hook: Hook, steps: int = 1) -> None:
    for _ in range(steps):
        with hook.step():
            hook.save("loss", 0.5, "losses")
            hook.save("fc.weight", np.ones(3), "weights")
    hook.close()


def test_without_a_run_it_looks_into_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index_files: Any
) -> None:
    monkeypatch.setenv("TOCSIN_RUN", str(tmp_path / "run"))
    train(Hook())
    assert len(index_files(tmp_path / "run")) == 1


def test_without_any_run_it_says_so(caplog: pytest.LogCaptureFixture) -> None:
    train(Hook())
    assert "set TOCSIN_RUN" in caplog.text


def test_what_sagemaker_configures(tmp_path: Path, index_files: Any) -> None:
    config = {
        "LocalPath": str(tmp_path / "tensors"),
        "HookParameters": {"train.save_interval": "3", "include_workers": "one"},
        "CollectionConfigurations": [
            {"CollectionName": "weights", "CollectionParameters": {"save_raw_tensor": "True"}}
        ],
    }
    (tmp_path / "hook.json").write_text(json.dumps(config))
    train(Hook(), 4)
    indexes = index_files(tmp_path / "tensors")
    assert [index.step for index in indexes] == [0, 3]
    assert indexes[0].entry("fc.weight").start is not None


def test_a_watch_file_that_says_nothing_of_capturing_leaves_it_to_sagemaker(
    tmp_path: Path, index_files: Any
) -> None:
    config = {"LocalPath": str(tmp_path / "tensors"), "HookParameters": {"save_interval": "3"}}
    (tmp_path / "hook.json").write_text(json.dumps(config))
    train(Hook(watch=Watch(rules=(RuleConfig("AllZero"),))), 4)
    assert [index.step for index in index_files(tmp_path / "tensors")] == [0, 3]
    train(Hook(tmp_path / "own", watch=Watch(capture=Capture(save_interval=2))), 4)
    assert [index.step for index in index_files(tmp_path / "own")] == [0, 2]


def test_arguments_win_over_what_sagemaker_configures(tmp_path: Path, index_files: Any) -> None:
    config = {"LocalPath": str(tmp_path / "tensors"), "HookParameters": {"save_interval": "2"}}
    (tmp_path / "hook.json").write_text(json.dumps(config))
    train(Hook(tmp_path / "run", save_interval=3), 4)
    assert [index.step for index in index_files(tmp_path / "run")] == [0, 3]
    assert not (tmp_path / "tensors").exists()


@pytest.mark.parametrize(
    ("include", "written", "number"), [("all", [0, 1, 2], 3), ("one", [0], 1), (None, [0, 1, 2], 3)]
)
def test_which_workers_write(
    tmp_path: Path, index_files: Any, include: str | None, written: list[int], number: int
) -> None:
    for rank in reversed(range(3)):
        hook = Hook(tmp_path, worker=f"worker_{rank}", num_workers=3, include_workers=include)
        train(hook, 2)
        assert hook.position["TRAIN"] == 2
    assert [index.worker for index in index_files(tmp_path)] == [f"worker_{w}" for w in written]
    collections = read_collections(LocalStorage(tmp_path))
    assert collections is not None
    assert collections.num_workers == number


def test_a_worker_that_does_not_write_is_stopped_all_the_same(tmp_path: Path) -> None:
    hook = Hook(
        tmp_path, worker="worker_1", num_workers=2, include_workers="one", poll_interval=0.001
    )
    request = {"requested_at": "2999-01-01T00:00:00Z"}
    LocalStorage(tmp_path).write("STOP.json", json.dumps(request).encode())
    assert hook._session is not None
    looked = threading.Event()
    look = hook._session.stop_file.look
    hook._session._poller._looks = {"STOP.json": lambda: (look(), looked.set())}
    assert looked.wait(PATIENCE)
    assert hook.should_stop
    hook.close()


def test_include_workers_of_another_word_is_refused(tmp_path: Path, caplog: Any) -> None:
    train(Hook(tmp_path, include_workers="some"))
    assert "include_workers is 'some'" in caplog.text


def costly(hook: Hook, steps: int) -> list[int]:
    """The steps that are saved while each save costs three seconds."""
    saved = []
    for step in range(steps):
        if hook.begin():
            saved.append(step)
            hook.save("loss", 0.5, "losses")
            hook.spent(3.0)
        hook.end()
    return saved


def test_the_interval_is_stretched_when_capturing_costs_too_much(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = Hook(tmp_path, save_interval=1)
    saved = costly(hook, 3000)
    hook.close()
    assert saved[:10] == list(range(10))
    assert saved[11:] == [1024, 2048]  # no training is as short as this: the most there is
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "1024 times as long" in record.getMessage()


@pytest.mark.parametrize("limit", [{"max_overhead": None}, {"max_overhead": 1.0}])
def test_without_a_limit_it_is_not(tmp_path: Path, limit: dict[str, Any]) -> None:
    hook = Hook(tmp_path, save_interval=1, **limit)
    assert costly(hook, 50) == list(range(50))
    hook.close()


def test_the_watch_file_may_set_the_limit(tmp_path: Path) -> None:
    hook = Hook(tmp_path, Watch(capture=Capture(max_overhead=1.0)), save_interval=1)
    assert costly(hook, 50) == list(range(50))
    hook.close()


def test_workers_follow_the_first_one(tmp_path: Path) -> None:
    hooks = [
        Hook(
            tmp_path,
            save_interval=1,
            worker=f"worker_{rank}",
            num_workers=2,
            poll_interval=3600,
        )
        for rank in range(2)
    ]
    first, second = hooks
    controls = [hook._session._control for hook in hooks if hook._session is not None]
    controls[0].look()
    controls[1].look()
    assert costly(first, 20) == costly(second, 20) == list(range(20))
    controls[0]._interval, controls[0]._progress = 0.0, lambda: (20, 0.1)
    controls[0].look()
    controls[1].look()
    assert costly(first, 40) == costly(second, 40) == [0, 1]  # steps 20 and 21
    for hook in hooks:
        hook.close()


def test_what_is_captured_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tocsin")
    hook = Hook(tmp_path, Watch(rules=(RuleConfig("VanishingGradient"),)), save_interval=1)
    train(hook, 3)
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"capturing to {tmp_path}: 1 in losses, 1 in weights"
    assert said[1].startswith(
        "no tensor captured so far for rule VanishingGradient: it looks for role"
    )
    assert len([message for message in said if message.startswith("capturing to")]) == 1


def test_a_configuration_that_cannot_be_used_costs_what_it_says_and_not_the_capture(
    tmp_path: Path, index_files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hook.json").write_text("{")
    train(Hook(tmp_path / "run"))
    assert len(index_files(tmp_path / "run")) == 1
    assert "capturing without the container's configuration" in caplog.text
    train(Hook())
    assert "nothing is captured" in caplog.text


def test_a_stderr_that_cannot_be_written_costs_no_step(
    tmp_path: Path, index_files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("tocsin_hooks.log._is_handled", lambda: False)
    monkeypatch.setattr("sys.stderr", Gone())
    train(Hook(tmp_path / "run", save_interval=1), 5)
    assert len(index_files(tmp_path / "run")) == 5


def test_a_hook_that_is_switched_off_counts_on_from_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN", "0")
    hook = Hook(tmp_path / "run", resumed_from=99)
    train(hook)
    assert hook.position["TRAIN"] == 101


def test_several_workers_save_no_step_by_a_clock_of_their_own(
    tmp_path: Path, index_files: Any
) -> None:
    capture = Capture(save_interval=100, save_interval_seconds=1e-9)
    for workers, steps in ((1, [0, 1, 2]), (2, [0])):
        out = tmp_path / str(workers)
        train(Hook(out, capture=capture, num_workers=workers, poll_interval=3600), 3)
        assert [index.step for index in index_files(out)] == steps


def test_a_poll_without_a_pause_is_refused(tmp_path: Path, caplog: Any) -> None:
    train(Hook(tmp_path, poll_interval=0))
    assert "poll_interval is 0" in caplog.text


def test_a_newer_hook_of_a_run_takes_it_over(tmp_path: Path, index_files: Any) -> None:
    """A notebook's cell that makes one is run again."""
    earlier = Hook(tmp_path, save_interval=1, run_id="earlier")
    other = Hook(tmp_path, save_interval=1, run_id="earlier", worker="worker_1", num_workers=2)
    for hook in (earlier, other):
        with hook.step():
            hook.save("loss", 0.5, "losses")
    newer = Hook(tmp_path, save_interval=1, run_id="newer")
    assert earlier.stats.saved == 1  # what was handed over is there
    train(newer)
    train(earlier, 3)
    train(other)
    found = {(i.step, i.worker): i.meta.run_id for i in index_files(tmp_path)}
    assert found == {
        (0, "worker_0"): "newer", (0, "worker_1"): "earlier", (1, "worker_1"): "earlier",
    }  # fmt: skip
