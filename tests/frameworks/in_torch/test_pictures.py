"""What must hold of pictures and of labels of their pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update
from tests.frameworks.in_torch.test_contracts import ASKED, broken

SIZE = 12


def pictures(count: int = 16) -> Any:
    """Shape (count, SIZE, SIZE, 3): colours that change little by little, beside noise."""
    colours = torch.randn(count, 1, 1, 3)
    slopes = torch.linspace(0, 1, SIZE)[None, None, :, None] * torch.randn(count, 1, 1, 3)
    return colours + slopes + 0.05 * torch.randn(count, SIZE, SIZE, 3)


def train(run: Path, model: nn.Module, loss: Any, form: Any) -> set[str]:
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(20):
            x = pictures()
            update(optimizer, loss(model(form(x)), (x.mean(-1) > 0).long()))
        assert hook.stats.errors == 0
    return set(broken(run))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (lambda x: x.reshape(len(x), 3, SIZE, SIZE), {"channels_not_permuted"}),
        (lambda x: x.permute(0, 3, 1, 2), set()),
        (lambda x: torch.randn(len(x), 3, SIZE, SIZE), set()),
    ],
)
def test_the_order_of_colours(form: Any, expected: set[str], run: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(400, 2))
    found = train(run, model, lambda output, y: F.cross_entropy(output, y[:, 0, 0]), form)
    assert found == expected


def binary(output: Any, y: Any) -> Any:
    return F.binary_cross_entropy_with_logits(output, y.float())


@pytest.mark.parametrize(
    ("outputs", "width", "loss", "expected"),
    [
        (3, 3, lambda o, y: F.cross_entropy(o, 0 * y), {"labels_identical"}),
        (3, 3, F.cross_entropy, set()),
        (1, 3, lambda o, y: binary(o, 0 * y[:, None]), {"labels_identical"}),
        (1, 3, lambda o, y: binary(o[:1], 0 * y[:1, None]), set()),  # a picture may be empty
        (1, 5, lambda o, y: binary(o, torch.zeros_like(o)), set()),  # the judge of patches
    ],
)
def test_masks_of_nothing(
    outputs: int, width: int, loss: Any, expected: set[str], run: Path
) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, outputs, width, padding=1))
    assert train(run, model, loss, lambda x: x.permute(0, 3, 1, 2)) == expected
