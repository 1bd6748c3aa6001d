"""Generators that help their discriminator, because a label or a sign is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import contracts


def logistic(score: Any, real: bool) -> Any:
    return F.binary_cross_entropy_with_logits(score, torch.full_like(score, float(real)))


def squares(score: Any, real: bool) -> Any:
    return (score - float(real)).square().mean()


def energies(score: Any, real: bool) -> Any:
    return -score.mean() if real else score.mean()


def turned(of: Callable[[Any, bool], Any]) -> Callable[[Any, bool], Any]:
    return lambda score, real: of(score, not real)


def penalty(judge: nn.Module, real: Any) -> Any:
    """A large one, on derivatives at real samples."""
    real = real.clone().requires_grad_()
    (found,) = torch.autograd.grad(judge(real).sum(), real, create_graph=True)
    return found.square().sum(1).mean()


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return -gradient


class Halves(nn.Module):
    """Gives two outputs of one node of autograd: of the second one there is no gradient."""

    def forward(self, x: Any) -> Any:
        return torch.cat([x, x], 1).chunk(2, 1)


def play(
    run: Path,
    judges: Any,
    makes: Any,
    *,
    watched: str,
    first: str,
    penalised: bool = False,
    between: Callable[[Any], Any] = lambda made: made,
    last: tuple[nn.Module, ...] = (),
) -> set[str]:
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    judge = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1), *last)
    its, ours = (torch.optim.Adam(each.parameters(), 1e-3) for each in (judge, maker))
    model = {"maker": maker, "judge": judge}[watched]
    with TorchHook.attach(model, run, save_interval=4, max_overhead=None) as hook:
        for _ in range(100):
            real = torch.randn(16, 2) + 3
            if first == "judge":
                made = maker(torch.randn(16, 4))
            for turn in (first, "maker" if first == "judge" else "judge"):
                if turn == "maker":
                    ours.zero_grad()
                    made = made if first == "judge" else maker(torch.randn(16, 4))
                    makes(judge(between(made)), True).backward()
                    ours.step()
                    continue
                its.zero_grad()
                maker(torch.randn(1, 4))  # what no loss is computed from
                loss = judges(judge(real), True) + judges(judge(made.detach()), False)
                (loss + penalty(judge, real) if penalised else loss).backward()
                its.step()
        assert hook.stats.errors == 0
    assert not torch.nn.modules.module._global_forward_hooks
    return contracts(run)


@pytest.mark.parametrize("watched", ["maker", "judge"])
@pytest.mark.parametrize("first", ["maker", "judge"])
@pytest.mark.parametrize("of", [logistic, energies])
def test_both_pull_in_the_same_direction(
    of: Callable[[Any, bool], Any], watched: str, first: str, run: Path
) -> None:
    found = play(run, of, turned(of), watched=watched, first=first)
    assert found == {"gan_losses_agree"}


@pytest.mark.parametrize("first", ["maker", "judge"])
@pytest.mark.parametrize(
    ("judges", "makes", "penalised"),
    [
        (logistic, logistic, False),
        (squares, squares, False),
        (energies, energies, False),
        (energies, energies, True),
        (turned(logistic), turned(logistic), False),  # real is 0 for both
        (logistic, lambda score, real: -logistic(score, not real), False),  # as in 2014
        (logistic, energies, False),
    ],
)
def test_opponents(judges: Any, makes: Any, penalised: bool, first: str, run: Path) -> None:
    found = play(run, judges, makes, watched="maker", first=first, penalised=penalised)
    assert found == set()


@pytest.mark.parametrize("first", ["maker", "judge"])
def test_gradients_that_are_reversed_on_the_way(first: str, run: Path) -> None:
    reverse = {"between": Reversed.apply}
    found = play(run, logistic, turned(logistic), watched="maker", first=first, **reverse)
    assert found == set()


def test_outputs_without_a_gradient(run: Path) -> None:
    def of_second(score: Any, real: bool) -> Any:
        return logistic(score[1], real)

    found = play(run, of_second, of_second, watched="maker", first="judge", last=(Halves(),))
    assert found == set()
