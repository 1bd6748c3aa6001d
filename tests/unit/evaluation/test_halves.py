"""A long history is judged by two processes as by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.evaluation import check, document, halves, watch_of_history
from tocsin.evaluation.halves import check_in_halves, has_halves
from tocsin.histories import as_run, reader_of
from tocsin.tensors import MemoryStorage


@pytest.fixture
def history(tmp_path: Path) -> MemoryStorage:
    """A loss that grows, and evaluations that get worse."""
    path = tmp_path / "log.csv"
    rows = (f"{at},{1 + at * at / 100},{1 + at / 10},{0.9 - at / 90}\n" for at in range(60))
    path.write_text("epoch,loss,val_loss,val_accuracy\n" + "".join(rows))
    reader = reader_of(path)
    assert reader is not None
    storage = as_run(reader, lambda _: None, configure=watch_of_history)
    assert isinstance(storage, MemoryStorage)
    return storage


@pytest.mark.parametrize("fails", [False, True])
def test_both_find_what_one_finds(
    history: MemoryStorage, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the second process ends without an answer, the first one judges its rules."""
    if fails:
        monkeypatch.setattr(halves, "_judge", slice)
    steps: list[int] = []
    checkpoint, report = check_in_halves(history, steps.append)
    alone, _ = check(history)
    assert document(checkpoint) == document(alone)
    assert {"LossDiverging", "ScoreWorse"} <= {
        name for name, record in checkpoint.rules.items() if record.first_violation
    }
    assert steps == [*range(60)]
    assert report.steps == 60


def test_a_short_history_and_a_run_are_judged_by_one(
    history: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert has_halves(history, 20_001)
    assert not has_halves(history, 20_000)
    assert not has_halves(MemoryStorage("run"), 20_001)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert not has_halves(history, 20_001)
