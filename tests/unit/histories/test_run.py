"""A history as a run: steps, times, names and roles, and what is too much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tocsin.histories import BadHistory, Scalar, as_run
from tocsin.histories import run as module
from tocsin.model import Role
from tocsin.tensors import INDEX, Storage, read_end, read_index


def of(path: Path, *scalars: Scalar, losses: tuple[str, ...] = ()) -> Storage:
    def reader(_: Path, __: object) -> Iterator[Scalar]:
        return iter(scalars)

    return as_run(path, reader, pytest.fail, losses)


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
    scalars = (Scalar("Loss/val", 0, 1.0), Scalar("Loss/train", 0, 1.0), Scalar("cost", 0, 1.0))
    assert values(of(tmp_path, *scalars)) == {
        (0, "val/Loss"): Role.METRIC,
        (0, "train/Loss"): Role.LOSS,
        (0, "cost"): Role.METRIC,
    }
    assert values(of(tmp_path, *scalars, losses=("cost",))) == {
        (0, "val/Loss"): Role.METRIC,
        (0, "train/Loss"): Role.METRIC,
        (0, "cost"): Role.LOSS,
    }


@pytest.mark.parametrize(
    ("scalars", "losses", "why"),
    [
        ([], (), "no scalar"),
        ([Scalar("val_loss", 0, 1.0)], (), "no loss of a training: name it with --loss NAME, of:"),
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
    storage = as_run(tmp_path, lambda path, note: iter(found), notes.append)
    assert list(values(storage)) == [(2, "loss")]
    assert notes == [f"{tmp_path}: skipped 2 values with a step below 0 or a name too long"]
