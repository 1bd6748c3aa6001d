"""``judge=``: a run is judged beside its training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tocsin.cli.check import check_document
from tocsin.events import StatusChange
from tocsin.report import fired
from tocsin.tensors import LocalStorage
from tocsin_hooks import Hook, TrainingStopped
from tocsin_hooks.judge import RunJudge, asked

from tests.waiting import PATIENCE, becomes


def train(hook: Hook, steps: int = 40, bad: int = 10, pause: float = 0.0) -> None:
    for step in range(steps):
        with hook.step():
            hook.save("loss", float("nan") if step >= bad else 1.0, collection="losses")
        time.sleep(pause)


def findings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_findings_come_while_it_trains_and_are_those_of_check(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = Hook(tmp_path / "run", save_interval=1, judge=True)
    train(hook, 12)
    assert becomes(lambda: any("ExplodingTensor" in line for line in findings(caplog)))
    train(hook, 5, bad=0)
    hook.close()
    document, _ = check_document(LocalStorage(tmp_path / "run"), None, 17)
    names = {rule["RuleConfigurationName"] for rule in fired(document)}
    lines = findings(caplog)
    said = {line.split(": ")[1] for line in lines if line.startswith("step ")}
    assert said == names
    end = next(at for at, line in enumerate(lines) if " in 17 saved steps of " in line)
    assert "step 10" in lines[end + 1]
    assert lines[-1] == f"what to do: tocsin check {tmp_path / 'run'}"


def test_a_run_without_a_step_is_not_called_free_of_findings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tocsin")
    Hook(tmp_path / "run", judge=True).close()
    assert any(
        "nothing was judged in 0 saved steps" in each.getMessage() for each in caplog.records
    )


def test_a_stop_reaches_the_training(tmp_path: Path) -> None:
    watch = tmp_path / "watch.json"
    watch.write_text('{"rules": [{"rule": "ExplodingTensor", "actions": ["stop"]}]}')

    def diverge() -> None:
        with Hook(tmp_path / "run", watch, save_interval=1, judge="stop") as hook:
            train(hook, int(PATIENCE / 0.02), bad=0, pause=0.02)

    with pytest.raises(TrainingStopped, match="ExplodingTensor stops the training"):
        diverge()
    assert (tmp_path / "run" / "STOP.json").is_file()
    assert not (tmp_path / "run" / "training_job_end.ts").exists()


def test_a_function_gets_each_change_of_this_training_only(tmp_path: Path) -> None:
    first = Hook(tmp_path / "run", save_interval=1)
    train(first)
    first.close()
    time.sleep(0.1)  # files have times of a coarse clock
    changes: list[StatusChange] = []
    hook = Hook(tmp_path / "run", save_interval=1, judge=changes.append)
    train(hook, 40, bad=100)
    hook.close()
    assert changes
    assert not [each for each in changes if each.firing and each.rule == "ExplodingTensor"]


def test_the_first_worker_alone_has_a_judge(tmp_path: Path) -> None:
    hooks = [
        Hook(tmp_path / "run", worker=f"worker_{rank}", num_workers=2, judge=True)
        for rank in range(2)
    ]
    judges = [hook._session and hook._session._judge for hook in hooks]
    assert [judge is not None for judge in judges] == [True, False]
    for hook in hooks:
        hook.close()


def test_a_judge_that_dies_is_not_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hook = Hook(tmp_path / "run", save_interval=1, judge=True)
    assert hook._session is not None
    assert hook._session._judge is not None
    hook._session._judge._child.kill()
    train(hook)
    hook.close()
    assert findings(caplog) == []
    assert hook.stats.errors == 0


def test_a_judge_that_cannot_go_on_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judge = RunJudge(str(tmp_path / "run"), True, lambda: None)
    (tmp_path / "run").write_text("a file where a folder is looked for")
    judge.end(PATIENCE)
    judge = RunJudge("s3://", True, lambda: None)
    judge.end(PATIENCE)
    assert findings(caplog)[-1].startswith("the run is no longer judged: ")


def test_it_ends_with_the_process_of_the_training(tmp_path: Path) -> None:
    code = f"""
import os, time
from tocsin_hooks import Hook
hook = Hook({str(tmp_path / "run")!r}, judge=True)
print(hook._session._judge._child.pid, flush=True)
if os.fork() == 0:  # as a worker of a data loader, which has the pipes, too
    time.sleep(20)
    os._exit(0)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        judge = int(it.stdout.readline())
        os.kill(it.pid, signal.SIGKILL)
        assert becomes(lambda: not _runs(judge))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # nobody waits for it where init does not


@pytest.mark.parametrize(
    ("variable", "given", "expected"),
    [
        ("", None, False),
        ("0", None, False),
        ("1", None, True),
        ("stop", None, "stop"),
        ("1", False, False),
        ("", "stop", "stop"),
    ],
)
def test_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, variable: str, given: Any, expected: Any
) -> None:
    monkeypatch.setenv("TOCSIN_JUDGE", variable)
    assert asked(given) == expected


def test_what_is_no_judge() -> None:
    with pytest.raises(ValueError, match="must be True, False, 'stop' or a function"):
        asked("yes")  # type: ignore[arg-type]


def test_the_training_process_loads_no_more(tmp_path: Path) -> None:
    code = f"""
import sys
from tocsin_hooks import Hook
hook = Hook({str(tmp_path / "run")!r}, judge=True)
hook.close()
heavy = {{"tocsin.judge", "tocsin.evaluation", "tocsin.report", "tocsin.aws", "rich", "boto3"}}
sys.exit(", ".join(heavy & set(sys.modules)) or 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kernel", [None, object()])
def test_a_notebook_shows_the_report_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: object
) -> None:
    shown: list[Mapping[str, str]] = []
    shell = SimpleNamespace(kernel=kernel)  # a terminal's has none
    display = SimpleNamespace(display=lambda data, raw: shown.append(data))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    hook = Hook(tmp_path / "run", save_interval=1, judge=True)
    train(hook, 12)
    hook.close(timeout=PATIENCE)
    assert len(shown) == (kernel is not None)
    for data in shown:
        assert data["text/html"].startswith("<iframe srcdoc=")
        assert "ExplodingTensor" in data["text/html"]
