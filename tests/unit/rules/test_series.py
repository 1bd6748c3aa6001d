from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules._series import points, should_rise

NAN, INF = math.nan, math.inf
MakeTensor = Callable[..., Tensor]


def at(mode: Mode = Mode.TRAIN) -> Step:
    return Step(10, mode, 10, 0.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", True),
        ("val_acc", True),
        ("train-auc", True),
        ("validation-aucpr", True),
        ("eval/map@5", True),
        ("mAP", True),
        ("AP50", True),
        ("ndcg@10-", True),
        ("top5", True),
        ("top_1_accuracy", True),
        ("BinaryAccuracy", True),
        ("valF1Score", True),
        ("R2", True),
        ("mean_iou", True),
        ("loss", False),
        ("CrossEntropyLoss_output_0", False),
        ("dice_loss", False),
        ("ssimLoss", False),
        ("validation-error", False),
        ("train-rmse", False),
        ("mlogloss", False),
        ("auc_err", False),
        ("perplexity", False),
        ("accumulated", False),
        ("mapped", False),
        ("preference", False),
        ("", False),
    ],
)
def test_what_should_rise_by_its_name(name: str, expected: bool) -> None:
    assert should_rise(name) is expected


@pytest.mark.parametrize(
    ("name", "contents", "value", "worker"),
    [
        pytest.param("loss", [1.0, 3.0], 2.0, 1, id="mean of workers, tensor of the worst"),
        pytest.param("accuracy", [0.25, 0.75], 0.5, 0, id="worst is the lowest"),
        pytest.param("loss", [[1.0, 3.0], [5.0]], 3.5, 1, id="means of batches"),
        pytest.param("loss", [NAN, 3.0], NAN, 0, id="NaN"),
        pytest.param("accuracy", [0.9, NAN], NAN, 1, id="NaN of what rises"),
        pytest.param("loss", [9.0, INF], INF, 1, id="infinite"),
        pytest.param("loss", [-INF, 1.0], -INF, 0, id="infinite downwards"),
        pytest.param("loss", [INF, NAN], NAN, 0, id="NaN goes before infinite"),
        pytest.param("loss", [[NAN, 1.0], 1.0], NAN, 0, id="NaN in a batch"),
        pytest.param("loss", [TensorSummary(), 3.0], 3.0, 1, id="one is not known"),
        pytest.param("loss", [[], 3.0], 3.0, 1, id="one is empty"),
        pytest.param("loss", [np.int64(4), np.uint8(2)], 3.0, 0, id="integers"),
        pytest.param("loss", [1.7e308, 1.7e308], 1.7e308, 0, id="sum beyond float"),
        pytest.param("loss", [2.0, 2.0], 2.0, 0, id="of equals the first"),
    ],
)
def test_one_point_of_several_workers(
    make_tensor: MakeTensor, name: str, contents: list[Any], value: float, worker: int
) -> None:
    tensors = [
        make_tensor(name, content, worker=f"worker_{rank}") for rank, content in enumerate(contents)
    ]
    (point,) = points(at(), tensors)
    assert point.value == pytest.approx(value, nan_ok=True)
    assert point.tensor is tensors[worker]


@pytest.mark.parametrize("content", [[], TensorSummary(), np.array("text")])
def test_unknown_values_are_not_points(make_tensor: MakeTensor, content: Any) -> None:
    assert not list(points(at(), [make_tensor("loss", content)]))
    assert not list(points(at(), []))


def test_a_key_for_each_mode_and_name(make_tensor: MakeTensor) -> None:
    long = "a" * 500
    tensors = [make_tensor(name, 1.0) for name in ("loss", long + "0", long + "1")]
    keys = [point.key for mode in (Mode.TRAIN, Mode.EVAL) for point in points(at(mode), tensors)]
    assert len(set(keys)) == 6
    assert {"TRAIN/loss", "EVAL/loss"} < set(keys)
    assert max(map(len, keys)) < 50
