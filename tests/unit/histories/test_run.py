"""A history as a run: steps, times, names and roles, and what is too much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tocsin.cli.run_view import RunWatch
from tocsin.histories import BadHistory, Choices, HistoryRun, Scalar, as_run
from tocsin.histories import run as module
from tocsin.histories.run import QUIET
from tocsin.histories.scalar import Note
from tocsin.model import Role
from tocsin.tensors import INDEX, Storage, read_end, read_index
from tocsin.watch import to_watch


@dataclass
class History:
    """Reads what was put into ``new`` since the last time."""

    path: Path
    new: list[Scalar]

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        found, self.new = self.new, []
        return iter(found)

    def describe(self) -> tuple[str, str, list[str]]:
        return "JSON", "step", []


def of(path: Path, *scalars: Scalar, losses: tuple[str, ...] = ()) -> Storage:
    reader = History(path, [*scalars])
    return as_run(reader, pytest.fail, Choices(losses), read_as=lambda _: None)


def values(storage: Storage) -> dict[tuple[int, str], str | None]:
    """The roles by step and name."""
    indexes = [read_index(storage, found) for found in storage.list(INDEX)]
    return {(i.step, entry.name): entry.role for i in indexes for entry in i.entries}


def test_steps_come_in_order_and_the_last_value_of_a_step_counts(tmp_path: Path) -> None:
    found = (Scalar("loss", 20, 3.0), Scalar("loss", 10, 2.0), Scalar("loss", 20, 1.0))
    storage = of(tmp_path, *found)
    assert list(values(storage)) == [(10, "loss"), (20, "loss")]
    assert storage.url == str(tmp_path)
    assert read_end(storage) is not None


def test_times_never_go_back_and_are_the_files_where_none_is_known(tmp_path: Path) -> None:
    times = (None, 1e9, 5e8, float("nan"), 1e300)
    storage = of(tmp_path, *(Scalar("loss", s, 1.0, time) for s, time in enumerate(times)))
    modified = [found.modified for found in storage.list(INDEX)]
    assert modified == [tmp_path.stat().st_mtime, 1e9, 1e9, 1e9, 1e9]


def test_roles_go_by_names_or_by_what_the_user_says(tmp_path: Path) -> None:
    scalars = (Scalar("Loss/val", 0, 1.0), Scalar("Loss/train", 0, 1.0), Scalar("price", 0, 1.0))
    assert values(of(tmp_path, *scalars)) == {
        (0, "val/Loss"): Role.METRIC,
        (0, "train/Loss"): Role.LOSS,
        (0, "price"): Role.METRIC,
    }
    assert values(of(tmp_path, *scalars, losses=("price",))) == {
        (0, "val/Loss"): Role.METRIC,
        (0, "train/Loss"): Role.METRIC,
        (0, "price"): Role.LOSS,
    }


@pytest.mark.parametrize(
    ("scalars", "losses", "why"),
    [
        ([], (), "no scalar"),
        (
            [Scalar("price", 0, 1.0)],
            (),
            "no training loss: name one with --loss NAME, of: price",
        ),
        ([Scalar("loss", 0, 1.0)], ("cost",), "no scalar 'cost' for --loss; there are: loss"),
        ([Scalar(f"loss{n}", 0, 1.0) for n in range(5)], (), "more than 3 values or 2,000 names"),
    ],
)
def test_what_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scalars: list[Scalar],
    losses: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.setattr(module, "_MOST_VALUES", 3)
    with pytest.raises(BadHistory) as refused:
        of(tmp_path, *scalars, losses=losses)
    assert why in str(refused.value)


def test_steps_that_no_run_can_have_are_skipped(tmp_path: Path) -> None:
    notes: list[str] = []
    found = (Scalar("loss", -1, 1.0), Scalar("loss", 10**30, 1.0), Scalar("loss", 2, 1.0))
    storage = as_run(History(tmp_path, [*found]), notes.append, read_as=lambda _: None)
    assert list(values(storage)) == [(2, "loss")]
    assert notes == [f"{tmp_path}: skipped 2 values with a step below 0 or a name too long"]


class Growing:
    """A history whose steps are written by and by, and the run that follows it."""

    def __init__(self, path: Path) -> None:
        self.now = path.stat().st_mtime + 1
        self.history = History(path, [])
        self.run = HistoryRun(self.history, pytest.fail, now=lambda: self.now)

    def look(self, *scalars: Scalar) -> list[tuple[int, str]]:
        """Step and name of all that is written after these scalars came."""
        self.now += 1
        self.history.new = [*scalars]
        self.run.refresh()
        return list(values(self.run.storage))


def test_a_step_is_written_when_the_next_begins_or_nothing_comes(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    assert growing.look() == []
    assert growing.look(Scalar("loss", 0, 1.0), Scalar("loss", 1, 1.0)) == [(0, "loss")]
    assert growing.look() == [(0, "loss")]
    growing.now += QUIET
    assert growing.look() == [(0, "loss"), (1, "loss")]
    assert read_end(growing.run.storage) is None


def test_a_value_that_comes_late_goes_to_the_next_step(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.look(Scalar("loss", 0, 1.0), Scalar("loss", 1, 1.0))
    found = growing.look(Scalar("val_loss", 0, 1.0), Scalar("loss", 2, 1.0))
    assert found == [(0, "loss"), (1, "val_loss"), (1, "loss")]


def test_a_training_that_begins_again_is_judged_again_from_there(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    watch = to_watch({"rules": [{"rule": "ExplodingTensor", "parameters": {}}]})
    looking = RunWatch(growing.run.storage, watch, lambda: growing.now, growing.run.refresh)

    def look(*scalars: Scalar) -> tuple[str, int, int]:
        growing.now += QUIET
        growing.history.new = [*scalars]
        looking.look()
        growing.now += QUIET  # the newest step is whole
        document = looking.look().document
        (rule,) = document["rules"]
        return rule["RuleEvaluationStatus"], document["steps"]["last"], rule["DataPoints"]

    broken = [Scalar("loss", s, 1.0 if s < 4 else math.nan) for s in range(6)]
    assert look(*broken) == ("IssuesFound", 5, 6)
    assert look(Scalar("loss", 3, 1.0), Scalar("loss", 4, 1.0)) == ("InProgress", 4, 2)
    assert look(Scalar("loss", 5, 1.0)) == ("InProgress", 5, 3)
    assert look(Scalar("loss", 0, 1.0), Scalar("loss", 1, 1.0)) == ("InProgress", 1, 2)
