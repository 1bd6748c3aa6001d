"""A hook that watches its machine: what opens it, what closes it, and what it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import check, document
from tocsin.tensors import LocalStorage, open_storage, read_end, read_index
from tocsin.watch import Machine, RuleConfig, Watch, encode_watch
from tocsin_hooks import Hook
from tocsin_hooks.machine import MachineWatch, watching
from tocsin_hooks.machine.__main__ import main

from tests.waiting import becomes

WATCH = Watch(machine=Machine("100ms", gpu=False))


@pytest.fixture(autouse=True)
def _container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(tmp_path / "hook.json"))


def train(hook: Hook, steps: int = 5) -> None:
    for batch in hook.data(range(steps)):
        with hook.step():
            hook.save("loss", float(batch), "losses")


def minutes_of(run: Path) -> list[Any]:
    storage = LocalStorage(run / "profiler-output")
    return [read_index(storage, found) for found in storage.list("index/")]


def counted(run: Path, name: str) -> int:
    entries = [index.entry(name) for index in minutes_of(run)]
    return sum(entry.summary.size for entry in entries if entry is not None)


def test_a_hook_writes_the_minutes_of_its_machine_beside_its_run(tmp_path: Path) -> None:
    run = tmp_path / "job" / "debug-output"
    with Hook(run, WATCH) as hook:
        train(hook)
    machine = tmp_path / "job"
    assert counted(machine, "step/TRAIN") == 5
    assert counted(machine, "step/wait") == 5
    own = open_storage(machine / "profiler-output")
    assert read_end(own) is not None
    assert minutes_of(machine)[0].run_id == next(iter(read_runs(run)))


def read_runs(run: Path) -> set[str | None]:
    storage = LocalStorage(run)
    return {read_index(storage, found).run_id for found in storage.list("index/")}


@pytest.mark.parametrize(
    ("watch", "environ"),
    [
        (Watch(), {}),
        (WATCH, {"TOCSIN_MACHINE": "s3://somebody/else"}),
        (WATCH, {"LOCAL_RANK": "1"}),
        (WATCH, {"TOCSIN": "0"}),
    ],
)
def test_nobody_asks_for_it_or_somebody_else_does_it(
    watch: Watch, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with Hook(tmp_path, watch) as hook:
        assert hook.timings is None
        loader = [1, 2]
        assert hook.data(loader) is loader
        train(hook)
    assert minutes_of(tmp_path) == []


def test_a_newer_watch_file_begins_it(
    tmp_path: Path,
) -> None:
    hook = Hook(tmp_path, Watch(), poll_interval=0.02)
    train(hook, 1)
    assert becomes((tmp_path / "watch.json").exists)

    def begun() -> bool:
        (tmp_path / "watch.json").write_bytes(encode_watch(WATCH))
        train(hook, 1)
        return hook.timings is not None

    assert becomes(begun)
    train(hook, 3)
    hook.close()
    assert counted(tmp_path, "step/TRAIN") >= 3


def test_a_machine_that_cannot_be_watched_is_said_and_the_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no storage")

    monkeypatch.setattr(watching, "MachineWatch", fail)
    with Hook(tmp_path, WATCH) as hook:
        train(hook)
    assert [r.message for r in caplog.records if "no storage" in r.message] == [
        "the machine is not watched: no storage"
    ]
    assert hook.stats.saved > 0


def test_proc_that_cannot_be_read_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError("/proc/stat: permission denied")

    for name in ("Cpu", "Memory", "Disk", "Network", "Processes"):
        monkeypatch.setattr(watching, name, closed)
    with Hook(tmp_path, WATCH) as hook:
        train(hook)
    said = [r.message for r in caplog.records if "permission denied" in r.message]
    assert len(said) == 1
    assert counted(tmp_path, "step/TRAIN") == 5


def test_a_rule_about_the_machine_can_stop_the_training(
    tmp_path: Path,
) -> None:
    hook = Hook(tmp_path, WATCH, poll_interval=0.02)
    train(hook, 1)
    asked = b'{"requested_at": 4e9, "rule": "TrainingHung"}'
    LocalStorage(tmp_path / "profiler-output").write("STOP.json", asked)
    assert becomes(lambda: hook.should_stop)
    hook.close()


def test_check_judges_each_run_by_its_own_rules(tmp_path: Path) -> None:
    with Hook(tmp_path, WATCH) as hook:
        train(hook)
    machine, _ = check(open_storage(tmp_path / "profiler-output"))
    rules = {rule["Rule"] for rule in document(machine)["rules"]}
    assert "InputBottleneck" in rules
    assert "LossSpike" not in rules
    training, _ = check(open_storage(tmp_path))
    rules = {rule["Rule"] for rule in document(training)["rules"]}
    assert "LossSpike" in rules
    assert "InputBottleneck" not in rules
    assert document(machine)["job"] == tmp_path.name


@pytest.mark.parametrize(
    ("rules", "machine", "training"),
    [
        (("InputBottleneck", "LossSpike"), {"InputBottleneck"}, {"LossSpike"}),
        (("LossSpike",), None, {"LossSpike"}),  # none is named: those of the profile
    ],
)
def test_a_list_names_the_rules_of_both_runs(
    rules: Any, machine: Any, training: Any, tmp_path: Path
) -> None:
    watch = Watch(rules=tuple(map(RuleConfig, rules)), machine=WATCH.machine)
    with Hook(tmp_path, watch) as hook:
        train(hook)
    for run, expected in ((tmp_path, training), (tmp_path / "profiler-output", machine)):
        checkpoint, _ = check(open_storage(run))
        found = {rule["Rule"] for rule in document(checkpoint)["rules"]}
        assert found == expected if expected else len(found) == 12


def test_a_command_is_watched_from_outside(
    tmp_path: Path,
) -> None:
    script = "import os; print(os.environ['TOCSIN_MACHINE']); raise SystemExit(3)"
    arguments = [str(tmp_path), "--interval", "100ms", "--no-gpu", "--", sys.executable, "-c"]
    command = [sys.executable, "-m", "tocsin_hooks.machine", *arguments, script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (3, str(tmp_path)), done.stderr
    assert minutes_of(tmp_path)
    assert read_end(open_storage(tmp_path / "profiler-output")) is None  # it failed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--interval", "1ms"], "'1ms' is not a time from 100ms to 60s"),
        (["--watch", "missing.yaml"], "missing.yaml"),
        (["--", "/no/such/program"], "/no/such/program"),
    ],
)
def test_wrong_arguments_are_one_line(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_minute_can_be_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_MINUTE", "0.5")
    machine = MachineWatch(str(tmp_path), Machine("100ms", gpu=False), None, "id")
    assert machine._sampler._minutes._clock.length == 0.5
    assert machine.close(marker=True, timeout=10.0)
