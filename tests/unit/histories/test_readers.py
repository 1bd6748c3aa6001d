"""Histories of other tools, file by file: what is read, skipped and refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tocsin.histories import BadHistory, reader_of
from tocsin.histories.lines import MOST_CHARACTERS

NAN = math.nan
FIXTURES = Path(__file__).parents[2] / "fixtures" / "tensorboard"


def read(path: Path) -> tuple[list[tuple[str, int, float]], list[str]]:
    """The scalars (name, step, value) of the history at ``path``, and the notes."""
    notes: list[str] = []
    reader = reader_of(path)
    assert reader is not None
    scalars = reader.read(notes.append)
    return [(scalar.name, scalar.step, scalar.value) for scalar in scalars], notes


def same(found: list[tuple[str, int, float]], expected: list[tuple[str, int, float]]) -> bool:
    return repr(found) == repr(expected)  # NaN is not equal to itself


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step,loss\n0,2.5\n1,2\n", [("loss", 0, 2.5), ("loss", 1, 2.0)]),
        ("\ufeffepoch,loss\r\n0,1\r\n", [("loss", 0, 1.0)]),
        ("Step;loss\n3;0,5\n", [("loss", 3, 0.5)]),
        ("step\tloss\n3\t1e-3\n", [("loss", 3, 0.001)]),
        ("\n\nstep,loss\n1,1\n\n2,2\n", [("loss", 1, 1.0), ("loss", 2, 2.0)]),
        (
            "step,loss,host\n1,NaN,a\n2,-Infinity,b\n3,inf,7\n",
            [("loss", 1, NAN), ("loss", 2, -math.inf), ("loss", 3, math.inf), ("host", 3, 7.0)],
        ),
        ("step,loss,val\n1,,0.5\n2,0.25,\n", [("val", 1, 0.5), ("loss", 2, 0.25)]),
        ("epoch,step,loss\n0.5,10,1\n", [("loss", 10, 1.0)]),
        (
            '"Step","j1 - loss","j1 - loss__MIN","j1 - loss__MAX"\n"1","2.5","2","3"\n',
            [("loss", 1, 2.5)],
        ),
        ("_step,_runtime,_timestamp,loss\n1,12.5,1700000000,2\n", [("loss", 1, 2.0)]),
    ],
    ids=[
        "plain",
        "BOM",
        "semicolon",
        "tab",
        "blank",
        "NaN and text",
        "missing",
        "fraction of an epoch",
        "W&B chart",
        "W&B history",
    ],
)
def test_csv(tmp_path: Path, text: str, expected: list[tuple[str, int, float]]) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(text.encode())
    scalars, notes = read(path)
    assert same(scalars, expected)
    assert notes == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.5\n2.25\n", [("loss", 0, 2.5), ("loss", 1, 2.25)]),
        ("10,2.5\n20,2.25\n", [("loss", 10, 2.5), ("loss", 20, 2.25)]),
        ("2.5 0\n2.25 100\n", [("loss", 0, 2.5), ("loss", 100, 2.25)]),
        (
            "0.5,0.25\n0.75,0.125\n",
            [("loss", 0, 0.5), ("loss.1", 0, 0.25), ("loss", 1, 0.75), ("loss.1", 1, 0.125)],
        ),
    ],
)
def test_a_scalar_without_a_name_has_the_files(
    tmp_path: Path, text: str, expected: list[tuple[str, int, float]]
) -> None:
    for name in ("loss.csv", "loss.log"):
        path = tmp_path / name
        path.write_text(text)
        scalars, notes = read(path)
        assert same(scalars, expected)
        assert notes == []


def test_cells_beyond_the_columns_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("step,loss\n1,1,9\n2\n3,3\n")
    note = f"{path}: 1 lines have more cells than columns: the rest is skipped"
    assert read(path) == ([("loss", 1, 1.0), ("loss", 3, 3.0)], [note])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"step": 1, "loss": 2, "ok": true, "name": "x", "more": {"a": 1}}\n',
            [("loss", 1, 2.0), ("more/a", 1, 1.0)],
        ),
        (
            '{"_step": 1, "loss": NaN}\n\n{"_step": 2, "loss": "Infinity"}',
            [("loss", 1, NAN), ("loss", 2, math.inf)],
        ),
        ('{\n  "log_history": [{"step": 5, "epoch": 0.5, "loss": 1.5}, 3]\n}', [("loss", 5, 1.5)]),
        (f'{{"step": 1, "loss": 1, "text": "{"x" * 5000}"}}\n', [("loss", 1, 1.0)]),
    ],
    ids=["plain", "not finite", "trainer_state", "long first line"],
)
def test_json(tmp_path: Path, text: str, expected: list[tuple[str, int, float]]) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(text)
    scalars, notes = read(path)
    assert same(scalars, expected)
    assert notes == []


def test_json_that_is_still_being_written_is_read_up_to_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2}\n{"step": 2, "lo')
    scalars, (note,) = read(path)
    assert scalars == [("loss", 1, 2.0)]
    assert note == f"{path}, line 2: the file breaks off, and everything before it is read"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("1,2.5,3\n2,2.25,3\n", "its first line has numbers, not column names: add a line"),
        ("model,loss\na,1\nb,2\n", "no column counts steps; 'model' only names the rows"),
        ("step,loss\n" + "1" * (MOST_CHARACTERS + 1), "line 2: longer than 1,048,576 characters"),
        ('step,loss\n1,"' + "1" * 200_000 + '"\n', "not a CSV: field larger than field limit"),
        ("step," + "a," * 3000 + "\n1\n", "has 3,002 columns, more than 2,000"),
        ("step,loss\n1,\0\n", "line 2: not UTF-8 text"),
        ('{"step": 1}\n{"step" 2}\n', "line 2: not a JSON object; remove the line"),
        ('{"step": 1, "loss": 1}\n[1]\n', "line 2: not a JSON object; each line must be one"),
        ('{\n"a": 1}', "it has the keys a"),
        ('{\n"a": {}, ' + '"a": {' * 100_000, "not JSON"),
        ("\x80\x04", "is a pickle, which can run code"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "history.csv"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(BadHistory) as refused:
        read(path)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert why in message
    assert "\n" not in message


def test_mlflow(tmp_path: Path) -> None:
    runs = [tmp_path / "mlruns" / "0" / name for name in ("4f1c", "9a0b")]
    for run in runs:
        (run / "metrics" / "val").mkdir(parents=True)
        (run / "meta.yaml").write_text("status: 3\n")
    (tmp_path / "mlruns" / "0" / "meta.yaml").write_text("name: Default\n")
    (tmp_path / "mlruns" / ".trash").mkdir()
    (runs[0] / "metrics" / "loss").write_text("1700000000000 2.5 0\n1700000001000 nan 10\nx y z\n")
    (runs[0] / "metrics" / "val" / "acc").write_text("1700000000000 0.5\n")
    scalars, notes = read(runs[0])
    assert same(scalars, [("loss", 0, 2.5), ("val/acc", 0, 0.5), ("loss", 10, NAN)])
    assert notes == [
        f"{runs[0]}/metrics/loss, line 3: skipped, because it is not: timestamp value step"
    ]
    with pytest.raises(BadHistory, match=r"holds 2 runs: name one of them: .*4f1c, .*9a0b$"):
        reader_of(tmp_path / "mlruns")


def test_a_folder_of_the_trainer(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text('{"log_history": [{"step": 1, "loss": 2}]}')
    assert read(tmp_path) == ([("loss", 1, 2.0)], [])


def test_a_run_of_tocsin_is_none_and_neither_is_an_empty_folder(tmp_path: Path) -> None:
    assert reader_of(tmp_path) is None
    (tmp_path / "index").mkdir()
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.tfevents").write_bytes(b"")
    (tmp_path / "trainer_state.json").write_text("{}")
    assert reader_of(tmp_path) is None
    assert reader_of(tmp_path.parent / "nothing") is None


def test_a_file_of_any_name_is_known_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('"epoch";"loss"\n1;2\n')
    assert read(path)[0] == [("loss", 1, 2.0)]
    path.write_text("profile: recommended\n")
    with pytest.raises(
        BadHistory, match=r"is neither a run nor a history: .* begins with 'profile: recommended'"
    ):
        reader_of(path)


def test_keras_in_tensorboard() -> None:
    scalars, notes = read(FIXTURES / "keras")
    losses = [1 / (1 + epoch) for epoch in range(4)]
    expected = [("train/epoch_loss", epoch, loss) for epoch, loss in enumerate(losses)]
    expected += [("validation/epoch_loss", epoch, 2 * loss) for epoch, loss in enumerate(losses)]
    found = {scalar[:2]: scalar[2] for scalar in scalars}
    assert found == pytest.approx({scalar[:2]: scalar[2] for scalar in expected})
    assert notes == []


def test_torch_in_tensorboard() -> None:
    scalars, _ = read(FIXTURES / "torch")
    assert scalars[:2] == [("Loss/train", 0, 1.0), ("Acc/val", 0, 1.0)]
    assert scalars[2:4] == [("Loss/train", 10, 0.5), ("Acc/val", 10, 0.5)]
    assert len(scalars) == 8
    assert read(next((FIXTURES / "torch").iterdir()))[0] == scalars  # the file itself


def test_an_event_file_that_breaks_off(tmp_path: Path) -> None:
    whole = next((FIXTURES / "torch").iterdir()).read_bytes()
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(whole[:-7])
    scalars, (note,) = read(tmp_path)
    assert len(scalars) == 7
    assert note.startswith(f"{path}: the file breaks off in the record at byte ")


def test_a_folder_of_several_runs_names_them() -> None:
    with pytest.raises(BadHistory, match=r"holds 2 runs: name one of them: .*keras, .*torch$"):
        reader_of(FIXTURES)
