"""Tables as they are found: which column is the step, and that nothing is lost unseen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tocsin.histories import BY_NAMES, BadHistory, Choices, as_run, reader_of
from tocsin.tensors import INDEX, Storage, read_index


def curve(storage: Storage, name: str) -> dict[int, float]:
    """The values of a scalar by its steps."""
    found = {}
    for file in storage.list(INDEX):
        index = read_index(storage, file)
        for entry in index.entries:
            if entry.name == name and entry.summary is not None:
                found[index.step] = entry.summary.mean
    return found


def read(path: Path, choices: Choices = BY_NAMES) -> tuple[Storage, str]:
    """The run of a history, and the line that says how it was read."""
    lines: list[str] = []
    reader = reader_of(path, choices.step)
    assert reader is not None
    storage = as_run(reader, pytest.fail, choices, read_as=lines.append)
    (line,) = lines
    assert line.startswith(f"{path}")
    assert ": read as " in line
    return storage, line


def of_lines(*rows: dict[str, object]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


EPOCHS = [(epoch, at) for epoch in (1, 2, 3) for at in (10, 20, 30)]


@pytest.mark.parametrize(
    ("text", "steps", "said"),
    [
        (
            "Epoch,Batch,loss\n" + "".join(f"{e},{b},{e + b}\n" for e in (0, 1) for b in (0, 1, 2)),
            [0, 1, 2, 3, 4, 5],
            "6 steps by Epoch and Batch",
        ),
        (
            of_lines(
                *(
                    {"mode": mode, "epoch": e, "iter": at, "loss": e + at / 100}
                    for e, at in EPOCHS
                    for mode in (("train", "val") if at == 30 else ("train",))
                )
            ),
            [10, 20, 30, 40, 50, 60, 70, 80, 90],
            "by epoch and iter (10–90); loss: train/loss; validation loss: val/loss",
        ),
        (
            of_lines(
                *(
                    {"current_steps": at, "total_steps": 9, "loss": 9 - at, "epoch": at / 4}
                    for at in range(9)
                )
            ),
            [*range(9)],
            "9 steps by current_steps",
        ),
        (
            of_lines(*({"iteration": at, "total_loss": 9 - at} for at in range(0, 80, 20))),
            [0, 20, 40, 60],
            "4 steps by iteration (0–60); loss: total_loss",
        ),
        (
            "epoch,loss\n" + "".join(f"{at / 4},{9 - at}\n" for at in range(6)),
            [0, 1, 2, 3, 4, 5],
            "6 steps by epoch",
        ),
        (
            "epoch,loss\n" + "".join(f"{at // 5},{9 - at}\n" for at in range(10)),
            [*range(10)],
            "10 steps by row number",
        ),
        (
            "loss,val_loss\n3,4\n2,3\n1,2\n",
            [0, 1, 2],
            "3 steps by row number (0–2); loss: loss; validation loss: val_loss",
        ),
        (",loss\n0,3\n1,2\n2,1\n", [0, 1, 2], "3 steps by row number"),
        ("epoch,loss\n1/3,3\n2/3,2\n3/3,1\n", [1, 2, 3], "3 steps by epoch (1–3)"),
        (
            "_step,train/global_step,train/loss\n0,50,3\n1,100,2\n2,150,1\n",
            [50, 100, 150],
            "3 steps by train/global_step (50–150); loss: train/loss",
        ),
        (
            "step,tag,value\n0,loss,3\n0,acc,0.1\n1,loss,2\n1,acc,0.2\n",
            [0, 1],
            "2 steps by step (0–1); loss: loss; metrics: acc",
        ),
        (
            "iterations,total_timesteps,train/loss,eval/r\n1,10,,\n2,20,5,\n,25,4,0.5\n3,30,3,\n",
            [20, 25, 30],
            "3 steps by total_timesteps",
        ),
        ("epoch  loss  lr\n    0  3.0  0.1\n    1  2.0  0.1\n", [0, 1], "2 steps by epoch (0–1)"),
        ("| epoch | loss |\n|---|---|\n| 0 | 3 |\n| 1 | 2 |\n", [0, 1], "2 steps by epoch (0–1)"),
    ],
    ids=[
        "batches of epochs",
        "OpenMMLab",
        "LLaMA-Factory",
        "detectron2",
        "fractions of an epoch",
        "rows of an epoch",
        "no step",
        "index of pandas",
        "of a total",
        "W&B of the Trainer",
        "a row for each scalar",
        "a row without the finer counter",
        "spaces",
        "Markdown",
    ],
)
def test_what_counts_the_steps(tmp_path: Path, text: str, steps: list[int], said: str) -> None:
    path = tmp_path / ("log.json" if text[0] == "{" else "log.csv")
    path.write_text(text)
    storage, line = read(path)
    name = (
        "train/loss" if "train/loss" in line else "total_loss" if "total_loss" in line else "loss"
    )
    assert sorted(curve(storage, name)) == steps
    assert said in line
    assert "left out" not in line


def epochs(losses: Sequence[float], start: int = 0) -> str:
    return "".join(f"{start + at},{loss}\n" for at, loss in enumerate(losses))


@pytest.mark.parametrize(
    ("text", "choices", "expected", "said"),
    [
        (
            "epoch,loss\n" + epochs([9, 8, 7, 6]) + epochs([5, 4, 3]),
            Choices(),
            {0: 5, 1: 4, 2: 3},
            "training 2 of 2 (others: --training 1)",
        ),
        (
            "epoch,loss\n" + epochs([9, 8, 7, 6]) + epochs([5, 4, 3]),
            Choices(training="1"),
            {0: 9, 1: 8, 2: 7, 3: 6},
            "training 1 of 2 (others: --training 2)",
        ),
        (
            "epoch,loss\n" + epochs([9, 8, 7, 6]) + "epoch,loss\n" + epochs([5, 4, 3]),
            Choices(),
            {0: 5, 1: 4, 2: 3},
            "training 2 of 2",
        ),
        (
            "epoch,loss\n" + epochs([9, 8, 7, 6, 5]) + epochs([4, 3], start=3),
            Choices(),
            {0: 9, 1: 8, 2: 7, 3: 4, 4: 3},
            "resumed at step 3, earlier values from there on are left out",
        ),
        (
            "model,epoch,loss\na,0,9\na,1,8\nb,0,5\nb,1,4\n",
            Choices(),
            {0: 5, 1: 4},
            "training 2 of 2 (others: --training 1 (a))",
        ),
        (
            "fold,epoch,loss\n1,0,9\n2,0,5\n1,1,8\n2,1,4\n",
            Choices(training="1"),
            {0: 9, 1: 8},
            "training 1 of 2",
        ),
        (
            '"Step","a - loss","a - loss__MIN","b - loss"\n0,9,9,5\n1,8,8,4\n2,7,7,\n',
            Choices(training="a"),
            {0: 9, 1: 8, 2: 7},
            "training 1 of 2 (others: --training 2 (b))",
        ),
        ("epoch,loss\n2,1\n1,2\n0,3\n", Choices(), {0: 3, 1: 2, 2: 1}, "3 steps by epoch"),
        ("x,epoch,loss\n5,0,3\n6,1,2\n", Choices(step="x"), {5: 3, 6: 2}, "2 steps by x"),
        ("epoch,loss\n7,3\n9,2\n", Choices(step="row"), {0: 3, 1: 2}, "row number"),
        (
            "epoch,loss\n" + epochs([*range(99, 40, -1)]) + "58,1\n",
            Choices(),
            {**{at: 99 - at for at in range(58)}, 58: 1},
            "left out: 1 value recorded again at the same step: the last counts",
        ),
    ],
    ids=[
        "begins again",
        "the first",
        "with its header",
        "resumed",
        "named",
        "interleaved",
        "a chart of two runs",
        "reversed",
        "--step NAME",
        "--step row",
        "one again",
    ],
)
def test_trainings(
    tmp_path: Path, text: str, choices: Choices, expected: dict[int, float], said: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    storage, line = read(path, choices)
    assert curve(storage, "loss") == expected
    assert said in line


@pytest.mark.parametrize("back_to", [0, 3])
def test_all_columns_of_a_row_begin_again(tmp_path: Path, back_to: int) -> None:
    path = tmp_path / "log.csv"
    rows = [*range(6), *range(back_to, 8)]
    path.write_text("epoch,acc,loss,lr\n" + "".join(f"{e},0.{e},{9 - e},0.1\n" for e in rows))
    storage, line = read(path)
    assert [len(curve(storage, name)) for name in ("acc", "loss", "lr")] == [8, 8, 8]
    assert "recorded again" not in line


def test_choices_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss\n0,2\n1,1\n")
    with pytest.raises(BadHistory, match="no column 'x' for --step; there are: epoch, loss"):
        read(path, Choices(step="x"))
    with pytest.raises(BadHistory, match="no training '2' for --training; there are: 1"):
        read(path, Choices(training="2"))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["87.5%", "90 %"], [87.5, 90]),
        (['"1,234.5"', '"12,345.0"'], [1234.5, 12345]),
        (['"0,125"', '"2,5"'], [0.125, 2.5]),
        (['"1,234"', '"0,125"', '"2,5"'], [1.234, 0.125, 2.5]),
        (["00:12", "01:02:03"], [12, 3723]),
        (["tensor(0.5)", "[0.25]"], [0.5, 0.25]),
    ],
    ids=["percent", "thousands", "decimal comma", "both", "clock", "arrays"],
)
def test_numbers_as_they_are_written(
    tmp_path: Path, cells: list[str], expected: list[float]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss,x\n" + "".join(f"{at},1,{c}\n" for at, c in enumerate(cells)))
    storage, line = read(path)
    assert [*curve(storage, "x").values()] == expected
    assert "left out" not in line


def test_cells_that_are_no_numbers_are_said_once_for_each_column(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "epoch,loss,lr,host\n0,2,broken,a1\n1,1,0.1,a2\n2,0.5,bad,a1\n3,,,\n4,null,-,\n"
    )
    _, line = read(path)
    assert line.endswith("left out: 2 cells of lr (as 'broken'); host (as 'a1')")


def test_shorter_lists_are_spread(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"train": {"loss": [4, 3, 2, 1]}, "val_loss": [2, 1]}))
    storage, line = read(path)
    assert curve(storage, "val_loss") == {1: 2, 3: 1}
    assert "JSON (shorter lists are spread over the steps of the longest)" in line


def test_a_list_alone_has_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "train_losses.txt"
    path.write_text("[1.5, 1.25, 1.0]")
    assert curve(read(path)[0], "train_losses") == {0: 1.5, 1: 1.25, 2: 1.0}


def test_evaluations_stand_for_a_training_without_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "evals_result.json"
    result = {"validation_0": {"logloss": [3, 2, 1]}, "validation_1": {"logloss": [4, 3, 2]}}
    path.write_text(json.dumps(result))
    _, line = read(path)
    assert "no training loss: the rules judge the validation loss instead" in line


def test_a_row_with_an_empty_cell_too_many_is_not_shifted(tmp_path: Path) -> None:
    path = tmp_path / "loss.tsv"
    rows = "".join(f"{n}\t{2 - n / 9}\t\t_\t{3 - n / 9}\n" for n in range(9))
    path.write_text("EPOCH\tTRAIN_LOSS\tTRAIN_F1\tDEV_LOSS\n" + rows)
    assert curve(read(path)[0], "DEV_LOSS") == pytest.approx({n: 3 - n / 9 for n in range(9)})


def test_a_table_of_step_name_and_value_without_names(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(
        "".join(f"{n} val {11 - n}\n{n} hella 0.25\n{n} train {10 - n}\n" for n in range(9))
    )
    with pytest.raises(BadHistory, match="--loss NAME, of: hella, train, val"):
        read(path)
    run, line = read(path, Choices(losses=("train", "val")))
    assert curve(run, "train") == {n: 10.0 - n for n in range(9)}
    assert curve(run, "val") == {n: 11.0 - n for n in range(9)}
    assert "no training loss" not in line


def test_columns_of_numbers_need_names(tmp_path: Path) -> None:
    path = tmp_path / "train_log.txt"
    path.write_text("".join(f"{n} {1 / (n + 1)} {n / 9}\n" for n in range(9)))
    with pytest.raises(BadHistory, match="add a line such as epoch,loss"):
        read(path)


def test_two_tables_in_turns(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    path.write_text(
        "Timesteps,loss,Return\n0,8.0,1.0\nMeanGate,MaxGate\n[0.2 0.7],[0.3 0.8]\n"
        + "".join(f"{n},{8.0 - n},1.0\n[0.2 0.{n}],[0.3 0.8]\n" for n in range(1, 8))
    )
    run, line = read(path)
    assert curve(run, "loss") == {n: 8.0 - n for n in range(8)}
    assert "MeanGate (as '[0.2 0.7]')" in line


@pytest.mark.parametrize("lines", [1, 2])
def test_lines_that_are_series(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "losses.csv"
    path.write_text(
        "".join(", ".join(f"{90 - at}" for at in range(50)) + ",\n" for _ in range(lines))
    )
    run, line = read(path)
    assert curve(run, "losses") == {at: 90.0 - at for at in range(50)}
    assert len(curve(run, "losses.1")) == 50 * (lines - 1)
    assert "read as CSV (each line is a series): 50 steps by row number" in line


def test_a_short_row_of_numbers_is_no_history(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("0.5, 0.25, 0.125\n")
    with pytest.raises(BadHistory, match="its first line has numbers, not column names"):
        as_run(reader_of(path), pytest.fail)


@pytest.mark.parametrize("late", [0, 3], ids=["in turns", "one process is ahead"])
def test_rows_of_two_processes(tmp_path: Path, late: int) -> None:
    path = tmp_path / "log.jsonl"
    steps = [*range(10, 810, 10)]
    rows = sorted(
        [(at, 0, step) for at, step in enumerate(steps)]
        + [(at + late, 1, step) for at, step in enumerate(steps)]
    )
    path.write_text(
        of_lines(*({"current_steps": s, "loss": 900.0 - s + rank} for _, rank, s in rows))
    )
    run, line = read(path)
    assert curve(run, "loss") == {step: 900.0 - step for step in steps}
    assert "80 steps by current_steps (10–800)" in line
    assert "2 rows of each step, as 2 processes write: the first counts" in line


def test_rows_of_training_and_evaluation_at_the_same_step_are_no_copies(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [[{"step": at, "loss": 90.0 - at}, {"step": at, "val_loss": 9.0}] for at in range(40)]
    path.write_text(of_lines(*(row for pair in rows for row in pair)))
    run, line = read(path)
    assert len(curve(run, "loss")) == len(curve(run, "val_loss")) == 40
    assert "processes" not in line


def test_two_trainings_are_not_two_processes(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{step},{9 - step}\n" for step in range(8)]
    path.write_text("".join(["step,loss\n", *rows, *rows]))
    assert "training 2 of 2" in read(path)[1]
