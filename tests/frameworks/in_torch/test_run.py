"""Scripts that know nothing of us, run as they are and run captured."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tocsin import Mode, create_trial

from tests.waiting import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SCRIPTS = HERE / "scripts"
CAPTURED = ("-m", "tocsin_hooks.run", "--save-interval", "1")
END_MARKER = "training_job_end.ts"

Ended = subprocess.CompletedProcess[str]


def python(*arguments: object, run: Path | None = None, **environment: str) -> Ended:
    """A Python process of its own, beside the scripts; what it captures goes to ``run``."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TOCSIN")}
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("rules_layer", "hooks"))
    env = {**inherited, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    if run is not None:
        env["TOCSIN_RUN"] = str(run)
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=SCRIPTS,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def printed(ended: Ended) -> list[float]:
    """The losses that a script has printed, one to a line."""
    return [float(line) for line in ended.stdout.splitlines() if line[:1].isdigit()]


def losses(run: Path, name: str, worker: str | None = None) -> list[float]:
    tensor = create_trial(str(run)).tensor(name)
    steps = tensor.steps(mode=Mode.TRAIN)
    return [float(tensor.value(step, mode=Mode.TRAIN, worker=worker)) for step in steps]


def by_twos(values: list[float]) -> list[float]:
    return [sum(pair) / 2 for pair in zip(values[::2], values[1::2], strict=True)]


@pytest.mark.parametrize(
    ("script", "loss", "steps", "also"),
    [
        (("plain.py", "--out", "theirs"), "CrossEntropyLoss_output_0", list, "Sequential_0.weight"),
        (("-m", "plain", "-m"), "CrossEntropyLoss_output_0", list, "1_output_0"),
        (("functional.py",), "loss", list, "gradient/Student_last.weight"),
        (("accumulation.py",), "loss", by_twos, "body.1_output_0"),
        (("amp.py",), "loss", list, "learning_rate"),
        (("compiled.py",), "loss", list, "gradient/Sequential_0.weight"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_a_script_does_the_same_and_is_captured(
    script: tuple[str, ...],
    loss: str,
    steps: Callable[[list[float]], list[float]],
    also: str,
    tmp_path: Path,
) -> None:
    alone = python(*script)
    captured = python(*CAPTURED, *script, run=tmp_path / "run")
    assert (captured.returncode, captured.stdout) == (0, alone.stdout), captured.stderr
    assert losses(tmp_path / "run", loss) == pytest.approx(steps(printed(alone)), rel=1e-6)
    names = create_trial(str(tmp_path / "run")).tensor_names()
    assert also in names
    # A loss that a module has computed is not saved a second time.
    named = [name for name in names if not name.startswith("interval/")]
    saved = [name for name in named if "loss" in name and not name.endswith("/skill")]
    assert [name for name in saved if "input" not in name] in ([], ["loss"])
    assert ("loss" in names) == (loss == "loss")
    assert (tmp_path / "run" / END_MARKER).exists()
    assert captured.stderr.count("is captured to") == 1


@pytest.mark.parametrize(
    ("end", "complete"), [("raise", False), ("interrupt", False), ("3", False), ("0", True)]
)
def test_it_ends_as_the_script_ends(end: str, complete: bool, tmp_path: Path) -> None:
    alone = python("ends.py", end)
    captured = python(*CAPTURED, "ends.py", end, run=tmp_path / "run")
    assert (captured.returncode, captured.stdout) == (alone.returncode, alone.stdout)
    ours = [line for line in captured.stderr.splitlines() if line.startswith("tocsin:")]
    assert [line for line in captured.stderr.splitlines() if line not in ours] == (
        alone.stderr.splitlines()
    )
    assert (tmp_path / "run" / END_MARKER).exists() == complete
    assert create_trial(str(tmp_path / "run")).steps() == [0]


def test_processes_of_torchrun_are_workers_of_one_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    ended = python(*torchrun, *CAPTURED, "ddp.py", run=run, OMP_NUM_THREADS="1")
    assert ended.returncode == 0, ended.stderr
    lines = re.findall(r"rank (\d) (\d+\.\d+)", ended.stdout)  # those of two may run together
    for rank in ("0", "1"):
        said = [float(value) for of, value in lines if of == rank]
        assert len(said) == 5
        assert losses(run, "loss", f"worker_{rank}") == pytest.approx(said, rel=1e-6)
    assert ended.stderr.count("is captured to") == 1


def test_the_class_chooses_the_model(tmp_path: Path) -> None:
    ended = python(*CAPTURED, "--model", "Student", "functional.py", run=tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    trial = create_trial(str(tmp_path / "run"))
    assert trial.modes() == [Mode.TRAIN]  # the teacher, which is called first, is a Net
    assert any(name.startswith("Student_") for name in trial.tensor_names())


def test_a_model_compiled_in_place_is_found_by_its_optimizer(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = (SCRIPTS / "compiled.py").read_text()
    before, _, after = text.partition("model = torch.compile(\n")
    inner, _, rest = after.partition(', backend="eager", fullgraph=True\n)')
    script.write_text(f"{before}model = {inner.strip()}\nmodel.compile(backend='eager'){rest}")
    captured = python(*CAPTURED, script, run=tmp_path / "run")
    assert (captured.returncode, len(printed(captured))) == (0, 5), captured.stderr
    assert "gradient/Sequential_0.weight" in create_trial(str(tmp_path / "run")).tensor_names()


@pytest.mark.parametrize("environment", [{"TOCSIN": "0"}, {"USE_SMDEBUG": "0"}])
def test_switched_off_the_script_just_runs(environment: dict[str, str], tmp_path: Path) -> None:
    captured = python(*CAPTURED, "ends.py", "0", run=tmp_path / "run", **environment)
    assert (captured.returncode, captured.stderr) == (0, "")
    assert len(printed(captured)) == 3
    assert not (tmp_path / "run").exists()


def test_without_a_place_it_says_where(tmp_path: Path) -> None:
    script = (SCRIPTS / "ends.py").read_text()
    (tmp_path / "train.py").write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{script}")
    captured = python("-m", "tocsin_hooks.run", tmp_path / "train.py", "0")
    assert captured.stderr.splitlines()[0] == "tocsin: Linear is captured to tocsin-run"
    assert (tmp_path / "tocsin-run" / "index").is_dir()


def test_nothing_to_capture_is_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint(torch.nn.ReLU()(torch.ones(1)))")
    captured = python(*CAPTURED, tmp_path / "train.py", run=tmp_path / "run")
    assert captured.stdout == "tensor([1.])\n"
    assert "nothing was captured: no model with parameters to learn" in captured.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("missing.py",), "cannot open missing.py: No such file or directory"),
        (("-m", "missing.module"), "no module named missing.module"),
        ((".",), ". is a folder"),
        (("--watch", "missing.yaml", "plain.py"), "missing.yaml"),
        (("--save-interval", "0", "plain.py"), "not a whole number of steps"),
        ((), "required: script-or-module"),
    ],
)
def test_what_cannot_be_run_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    ended = python("-m", "tocsin_hooks.run", *arguments)
    assert ended.returncode == 2
    assert says in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_a_request_ends_the_script_if_that_is_wanted(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "STOP.json").write_text(json.dumps({"requested_at": time.time() + 3600}))
    ended = python("-m", "tocsin_hooks.run", "--stop", "forever.py", run=run)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "TrainingStopped" in ended.stderr.splitlines()[-1]
    assert not (run / END_MARKER).exists()


@pytest.mark.parametrize("first", ["torch", "tocsin_hooks.torch"])
def test_a_script_that_captures_itself_is_left_alone(first: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import {first}\n{(SCRIPTS / 'attached.py').read_text()}")
    ended = python(*CAPTURED, script, tmp_path / "own", run=tmp_path / "ours")
    assert ended.returncode == 0, ended.stderr
    assert create_trial(str(tmp_path / "own")).steps() == [0]
    assert not (tmp_path / "ours").exists()
