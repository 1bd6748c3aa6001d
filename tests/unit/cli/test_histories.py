"""Histories of other tools in ``tocsin check`` and ``tocsin report``, a diverging and a healthy one
of each kind.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tocsin.cli.place import growing
from tocsin.cli.run_view import RunWatch
from tocsin.model import Mode
from tocsin.tensors import Captured, LocalStorage, RunWriter, export_tensorboard, index_objects
from tocsin.tensors import read_index as read
from tocsin.watch import to_watch

from .conftest import write_run

HEALTHY = [0.1 + 2 * math.exp(-step / 12) for step in range(60)]
DIVERGING = [2.0 + step for step in range(60)]
WORSE = [0.5 + abs(20 - step) / 10 for step in range(60)]  # from step 20 on
LOSS_RULES = {"LossDiverging", "LossWorse", "LossNotDecreasing"}


def in_tensorboard(folder: Path, losses: Sequence[float]) -> Path:
    """What ``tocsin tensors --export-tensorboard`` writes."""
    run = LocalStorage(folder / "run")
    writer = RunWriter(run, run_id="r1")
    for step, loss in enumerate(losses):
        writer.write(step, Mode.TRAIN, step, [Captured("loss", np.float32(loss))])
    indexes = [read(run, found) for found in index_objects(run)]
    export_tensorboard(run, indexes, folder / "logs")
    return folder / "logs"


def in_mlflow(folder: Path, losses: Sequence[float]) -> Path:
    metrics = folder / "mlruns" / "0" / "4f1c" / "metrics"
    metrics.mkdir(parents=True)
    (metrics.parent / "meta.yaml").write_text("status: 3\n")
    lines = (f"{1_700_000_000_000 + step} {loss} {step}" for step, loss in enumerate(losses))
    (metrics / "train_loss").write_text("".join(f"{line}\n" for line in lines))
    return folder / "mlruns"


def in_csv(folder: Path, losses: Sequence[float]) -> Path:
    path = folder / "wandb-export.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(("Step", "j1 - loss", "j1 - loss__MIN", "j1 - loss__MAX"))
        writer.writerows((step, loss, loss, loss) for step, loss in enumerate(losses))
    return path


def in_json_lines(folder: Path, losses: Sequence[float]) -> Path:
    path = folder / "metrics.jsonl"
    rows = ({"_step": step, "loss": loss} for step, loss in enumerate(losses))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def of_the_trainer(folder: Path, losses: Sequence[float]) -> Path:
    rows = [{"step": step, "epoch": step / 10, "loss": loss} for step, loss in enumerate(losses)]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows}, indent=2))
    return folder


KINDS = [in_tensorboard, in_mlflow, in_csv, in_json_lines, of_the_trainer]


@pytest.mark.parametrize("write", KINDS)
def test_a_history_that_diverges_and_a_healthy_one(
    tocsin, tmp_path: Path, write: Callable[[Path, Sequence[float]], Path]
) -> None:
    for name, losses in (("healthy", HEALTHY), ("diverging", DIVERGING)):
        (tmp_path / name).mkdir()
        said = tocsin("check", write(tmp_path / name, losses), "--json")
        found = {
            rule["Rule"]
            for rule in said.json["rules"]
            if rule["RuleEvaluationStatus"] == "IssuesFound"
        }
        assert said.err.count("\n") == 1
        assert ": 60 steps by " in said.err
        assert said.json["finished"] is True
        assert said.json["steps"] == {"evaluated": 60, "first": 0, "last": 59}
        assert said.code == (name == "diverging")
        assert bool(found & LOSS_RULES) is (name == "diverging")


def test_training_and_evaluation_are_compared(tocsin, tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    rows = [f"{epoch},{2**-epoch:.6f},{WORSE[epoch]}" for epoch in range(60)]
    path.write_text("\n".join(["epoch,Loss/train,Loss/val", *rows]))
    said = tocsin("check", path, "--rule", "Overfit", "--json")
    (rule,) = said.json["rules"]
    assert rule["RuleEvaluationStatus"] == "IssuesFound"
    assert "val/Loss" in rule["StatusDetails"]


def test_a_loss_that_no_pattern_knows(tocsin, tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("step,price\n" + "".join(f"{at},{x}\n" for at, x in enumerate(DIVERGING)))
    refused = tocsin("check", path).complaint
    assert refused == f"{path}: no training loss: name one with --loss NAME, of: price"
    assert "LossDiverging" in tocsin("check", path, "--loss", "price").out


def test_the_report_compares_histories(tocsin, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    first, second = in_csv(tmp_path, HEALTHY), in_json_lines(tmp_path, DIVERGING)
    said = tocsin("report", first, second, "-o", output, "--json")
    assert said.code == 0
    assert said.json["run"] == str(first)
    page = json.loads(output.with_suffix(".json").read_text())
    assert {curve["name"] for curve in page["losses"]} == {"loss"}
    assert str(second) in output.with_suffix(".json").read_text()


def test_what_goes_with_a_history_only_and_what_does_not(tocsin, tmp_path: Path) -> None:
    path = in_csv(tmp_path, HEALTHY)
    run = write_run(tmp_path / "run", 3, "loss")
    assert "read it with tocsin check" in tocsin("check", path, "--follow").complaint
    assert "this is a run" in tocsin("check", run, "--loss", "loss").complaint


def test_a_folder_of_runs_is_not_a_history(tocsin, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "j1", 3, "loss")
    in_tensorboard(tmp_path / "runs" / "tensorboard", HEALTHY)
    assert "is not a run" in tocsin("check", tmp_path / "runs").complaint


def test_a_live_history_costs_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, look by look: a folder of TensorBoard whose file grows, also within a record."""
    whole = in_tensorboard(tmp_path / "whole", [*HEALTHY[:30], math.nan, 1.0])
    (file,) = whole.rglob("*tfevents*")
    data, live = file.read_bytes(), tmp_path / "live"
    live.mkdir()
    (live / file.name).write_bytes(data[: len(data) // 2 + 5])
    storage, refresh = growing(str(live))
    run = RunWatch(storage, to_watch({"rules": ["ExplodingTensor"]}), refresh=refresh)
    before = run.look().document
    assert (before["finished"], 10 < before["steps"]["last"] < 20) == (False, True)
    evaluated: list[int] = []
    read: list[int] = []
    original = Path.open

    def opened(path: Path, *arguments: object, **options: object) -> object:
        found = original(path, *arguments, **options)
        if path.name == file.name:
            read.append(len(data) - found.tell())
        return found

    monkeypatch.setattr(Path, "open", opened)
    run.look()
    assert read == []
    monkeypatch.undo()
    with (live / file.name).open("ab") as more:
        more.write(data[len(data) // 2 + 5 :])
    after = run.look(evaluated.append).document
    assert evaluated == list(range(before["steps"]["last"] + 1, 31))  # 31 may not be whole
    (rule,) = after["rules"]
    assert (rule["RuleEvaluationStatus"], rule["FiredAt"]["step"]) == ("IssuesFound", 30)


@pytest.mark.parametrize("write", KINDS)
def test_every_history_can_grow(
    tmp_path: Path, write: Callable[[Path, Sequence[float]], Path]
) -> None:
    path = write(tmp_path, HEALTHY[:10])
    storage, refresh = growing(str(path))
    run = RunWatch(storage, refresh=refresh)
    first = run.look().document["steps"]
    (tmp_path / "again").mkdir()
    again = write(tmp_path / "again", HEALTHY[:20])
    for file in filter(Path.is_file, again.rglob("*") if again.is_dir() else [again]):
        place = path / file.relative_to(again) if path.is_dir() else path
        place.write_bytes(file.read_bytes())
    second = run.look().document["steps"]
    assert (first["last"], second["last"], second["evaluated"]) == (8, 18, 19)
