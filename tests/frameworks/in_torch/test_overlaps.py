"""Losses of Dice and Jaccard, and what is turned round in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.contracts.overlaps import has_overlap_of_scores, minimises_overlap
from torch import nn

from tests.frameworks.in_torch.runs import update
from tests.frameworks.in_torch.test_contracts import ASKED, broken

Share = Callable[[Any, Any], Any]


def dice(p: Any, y: Any) -> Any:
    return (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)


def dice_of_each(p: Any, y: Any) -> Any:
    p, y = p.view(len(p), -1), y.view(len(y), -1)
    return ((2 * (p * y).sum(1) + 1) / (p.sum(1) + y.sum(1) + 1)).mean()


def jaccard(p: Any, y: Any) -> Any:
    both = (y * p).sum()
    return both / (p.sum() + y.sum() - both)


def of_squares(p: Any, y: Any) -> Any:
    return 2 * (p * y).sum() / (p.square().sum() + y.sum())


def rest(p: Any, y: Any) -> Any:
    """Samples that are not of the class, counted by predictions."""
    return (p * (1 - y)).sum() + ((1 - p) * (1 - y)).sum()


SHARES = (dice, dice_of_each, jaccard, of_squares)
LOSSES: dict[str, tuple[Callable[[Share, Any, Any], Any], bool]] = {
    "itself": (lambda share, p, y: share(p, y), True),
    "beside another": (lambda share, p, y: F.binary_cross_entropy(p, y) + share(p, y), True),
    "from 1": (lambda share, p, y: 1 - share(p, y), False),
    "negative": (lambda share, p, y: -share(p, y), False),
    "its logarithm": (lambda share, p, y: -share(p, y).log(), False),
    "a mean where there is a mask": (lambda _, p, y: (p * y).sum() / y.sum(), False),
    "errors where there is a mask": (lambda _, p, y: ((p - 1).square() * y).sum() / p.sum(), False),
    "false positives among predictions": (
        lambda _, p, y: (p * (1 - y)).sum() / (p.sum() + 1),
        False,
    ),
    "a balanced error": (
        lambda _, p, y: ((1 - p) * y).sum() / y.sum() + (p * (1 - y)).sum() / rest(p, y),
        False,
    ),
    "no labels": (lambda _, p, y: (p * (y + 0.5)).sum() / p.sum(), False),
}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, share: Share) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(4, 1, 8, 8, requires_grad=True), torch.rand(4, 1, 8, 8) > 0.7
    loss, expected = LOSSES[name]
    assert minimises_overlap(loss(share, scores.sigmoid(), labels.float())) is expected


def test_several_classes() -> None:
    scores, labels = torch.randn(4, 3, 8, requires_grad=True), torch.randint(3, (4, 8))
    p, y = scores.softmax(1), F.one_hot(labels, 3).permute(0, 2, 1).float()
    share = (2 * (p * y).sum((0, 2)) / (p.sum((0, 2)) + y.sum((0, 2)))).mean()
    assert minimises_overlap(share)
    assert not minimises_overlap(1 - share)


@pytest.mark.parametrize(
    ("share", "form", "expected"),
    [
        (dice, lambda p: p, True),
        (dice_of_each, lambda p: p, True),
        (jaccard, lambda p: p.squeeze(1), True),
        (of_squares, lambda p: p, False),  # largest where scores are the labels
        (dice, torch.sigmoid, False),
        (dice, torch.relu, False),
        (dice, lambda p: p / 100, False),
    ],
)
def test_scores(share: Share, form: Callable[[Any], Any], expected: bool) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(4, 1, 8, 8, requires_grad=True) - 1, torch.rand(4, 1, 8, 8) > 0.7
    output = form(scores)
    loss = 1 - share(output, labels.float().view_as(output))
    assert has_overlap_of_scores(loss, [output]) is expected
    assert not has_overlap_of_scores(loss, [])


@pytest.mark.parametrize("turned", [False, True])
def test_a_training(turned: bool, run: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(20):
            x = torch.randn(8, 1, 8, 8)
            share = dice(torch.sigmoid(model(x)), (x > 0.5).float())
            update(optimizer, share if turned else 1 - share)
        assert hook.stats.errors == 0
    assert ("overlap_minimised" in broken(run)) is turned


@pytest.mark.parametrize("last", [nn.Identity(), nn.Sigmoid()])
def test_a_training_by_scores(last: nn.Module, run: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1), last)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(20):
            x = torch.randn(8, 1, 8, 8)
            loss = 1 - dice_of_each(model(x), (x > 0.5).float())
            update(optimizer, loss)
        assert hook.stats.errors == 0
    assert ("overlap_of_logits" in broken(run)) is isinstance(last, nn.Identity)
