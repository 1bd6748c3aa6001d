"""Views in place of permutations, and attention that is normalised along the wrong axis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.permuted import is_permuted
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import contracts, update

N, T, H, E = 6, 10, 4, 20  # samples, steps, heads, features
Values = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((32, 28, 20), (28, 32, 20), True),
        ((8, 10, 6), (8, 6, 10), True),
        ((8, 32, 24, 3), (8, 3, 32, 24), True),
        ((2, 16, 50), (16, 100), True),  # the last states of two layers
        ((16, 10, 64), (16, 4, 10, 16), True),  # heads before steps
        ((16, 4, 10, 16), (16, 10, 64), True),
        ((10, 16, 64), (10, 64, 16), False),  # four heads of 16 for each of 16 samples, perhaps
        ((16, 784), (16, 28, 28), False),
        ((16, 10, 64), (160, 64), False),
        ((8, 12, 5, 5), (8, 3, 4, 5, 5), False),
        ((8, 3, 16, 16), (8, 3, 4, 4, 4, 4), False),  # patches
        ((20, 1, 30), (1, 20, 30), False),
        ((20, 30), (600,), False),
        ((0, 3), (3, 0), False),
        ((), (1, 1), False),
    ],
)
def test_axes_that_a_view_moves(before: Any, after: Any, expected: bool) -> None:
    assert is_permuted(before, after) is expected


class Model(nn.Module):
    def __init__(self, mixed: Values) -> None:
        super().__init__()
        self.first = nn.Linear(E, E)
        self.last = nn.Linear(E, 1)
        self.mixed = mixed

    def forward(self, x: Any) -> Any:
        return self.last(self.mixed(self.first(x)))[:, -1, 0]


def heads(x: Any) -> Any:
    return x.view(N, T, H, E // H).transpose(1, 2)


def attend(axis: int, dropout: float = 0.0) -> Values:
    def mixed(x: Any) -> Any:
        scores = heads(x) @ heads(x).transpose(-2, -1) / 2
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -1e9)
        weights = F.dropout(F.softmax(scores, dim=axis), dropout)
        return (weights @ heads(x)).transpose(1, 2).reshape(N, T, E)

    return mixed


def shifted(x: Any) -> Any:
    """Scores of relative positions, as in Transformer-XL."""
    scores = F.pad(x @ x.transpose(1, 2), (1, 0))
    return scores.view(N, T + 1, T)[:, 1:].softmax(-1) @ x


def both_ways(x: Any) -> Any:
    """Attention of steps to features and back, as in QANet."""
    scores = x @ x.transpose(1, 2)
    back = scores.softmax(1).transpose(1, 2)
    return torch.bmm(torch.bmm(scores.softmax(2), back), x)


def slots(x: Any) -> Any:
    """Steps compete for slots, which get means of them."""
    shares = (x @ x.transpose(1, 2)).softmax(1) + 1e-8
    return (shares / shares.sum(-1, keepdim=True)) @ x


def by_clusters(x: Any) -> Any:
    shares = nn.Linear(E, T)(x).softmax(-1)
    return shares.transpose(1, 2) @ x


@pytest.mark.parametrize(
    ("mixed", "expected"),
    [
        (attend(-1), set()),
        (attend(3, dropout=0.1), set()),
        (attend(2), {"attention_over_queries"}),
        (attend(1), {"attention_over_queries"}),
        (attend(0, dropout=0.1), {"attention_over_queries"}),
        (lambda x: torch.bmm((x @ x.mT).softmax(2), x), set()),
        (lambda x: torch.bmm((x @ x.mT).softmax(1), x), {"attention_over_queries"}),
        (lambda x: (x @ x.mT).softmax(1).transpose(1, 2) @ x, set()),
        (lambda x: torch.einsum("nqk,nke->nqe", (x @ x.mT).softmax(2), x), set()),
        (
            lambda x: torch.einsum("nqk,nke->nqe", (x @ x.mT).softmax(1), x),
            {"attention_over_queries"},
        ),
        (shifted, set()),
        (both_ways, set()),
        (slots, set()),
        (by_clusters, set()),
        (lambda x: x.transpose(0, 1).transpose(0, 1), set()),
        (lambda x: x.view(T, N, E).view(N, T, E), {"axes_not_permuted"}),
        (lambda x: x.view(N, E, T).transpose(1, 2), set()),  # as many features as two of the steps
        (lambda x: x.view(N, H, T, -1).transpose(1, 2).reshape(N, T, E), {"axes_not_permuted"}),
    ],
)
def test_attention_and_views(mixed: Values, expected: set[str], run: Path) -> None:
    model = Model(mixed)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None) as hook:
        for _ in range(15):
            x = torch.randn(N, T, E)
            update(optimizer, F.mse_loss(model(x), x[:, 0, 0]))
        assert hook.stats.errors == 0
    assert contracts(run) == expected
