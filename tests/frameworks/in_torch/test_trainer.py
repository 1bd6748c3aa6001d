"""What the callbacks of trainers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.model import Mode
from tocsin_hooks.torch.trainer import TrainerCapture

from .conftest import Net, Written


@pytest.mark.usefixtures("batch")
def test_an_evaluation_without_a_batch_is_a_step_all_the_same(
    net: Net, run: Path, train: Callable[..., Any], written: Callable[[Path], Written]
) -> None:
    capture = TrainerCapture(run, {"save_interval": 1})
    capture.open(net, 1)
    optimizer = train(net, 2)
    capture.end_evaluation({"eval_loss": 7.0})
    train(net, 1, optimizer)
    capture.close()
    steps = written(run)
    assert list(steps) == [
        (Mode.TRAIN, 0),
        (Mode.TRAIN, 1),
        (Mode.EVAL, 0),
        (Mode.TRAIN, 2),
    ]
    assert set(steps[Mode.EVAL, 0]) == {"eval_loss"}
    intervals = {"interval/loss", "interval/gradient"}  # from the second update on
    first = set(steps[Mode.TRAIN, 0])
    assert first | intervals == set(steps[Mode.TRAIN, 1]) == set(steps[Mode.TRAIN, 2])


def test_an_evaluation_that_calls_the_model_many_times_is_one_step(
    net: Net, run: Path, train: Callable[..., Any], written: Callable[[Path], Written]
) -> None:
    """As a text is generated, a token at a time."""
    capture = TrainerCapture(run, {"save_interval": 1})
    capture.open(net, 1)
    optimizer = train(net, 1)
    for _ in range(2):
        for _batch in range(2):
            with torch.no_grad():
                for _ in range(3):
                    net(torch.randn(1, 4))
            capture.evaluated()
        capture.end_evaluation({"eval_loss": 7.0})
    train(net, 1, optimizer)
    capture.close()
    steps = written(run)
    assert list(steps) == [
        (Mode.TRAIN, 0),
        (Mode.EVAL, 0),
        (Mode.EVAL, 1),
        (Mode.TRAIN, 1),
    ]
    assert {"eval_loss", "Net_input_0"} <= set(steps[Mode.EVAL, 1])


def test_a_watch_file_with_an_error_is_raised_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.yaml"):
        TrainerCapture(tmp_path / "run", {"watch": tmp_path / "missing.yaml"})
