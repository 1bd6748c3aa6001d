"""Terms of losses with the wrong sign."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.contracts.signs import (
    lowers_entropy,
    lowers_likelihood,
    ppo_clip_uses_max,
    rewards_derivatives,
)
from torch import nn

from tests.frameworks.in_torch.runs import contracts, update

WORTH = torch.tensor([1.0, -2.0, 0.5, -0.1])


def ratio(model: Any) -> Any:
    return (model(torch.randn(4, 3)).squeeze(1) - 0.1).exp()


def both(model: Any, worth: Any) -> tuple[Any, Any]:
    plain = ratio(model)
    return worth * plain, torch.clamp(plain, 0.8, 1.2) * worth


OBJECTIVES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "the smaller one grows": (lambda m: -torch.min(*both(m, WORTH)).mean(), False),
    "of losses the larger one falls": (lambda m: torch.max(*both(m, -WORTH)).mean(), False),
    "beside others": (
        lambda m: 0.5 * m(torch.ones(4, 3)).square().mean() - 2 * torch.min(*both(m, WORTH)).sum(),
        False,
    ),
    "a minus is missing": (lambda m: torch.min(*both(m, WORTH)).mean(), True),
    "the smaller one of losses falls": (lambda m: torch.min(*both(m, -WORTH)).mean(), True),
    "the larger one grows": (lambda m: 3 - torch.max(*both(m, WORTH)).mean() / 2, True),
    "of two losses the smaller one": (
        lambda m: torch.min(
            m(torch.ones(4, 3)).square(), (m(torch.ones(4, 3)) - 1).square()
        ).mean(),
        False,
    ),
    "values that are clipped": (
        lambda m: torch.min(m(torch.ones(4, 3)), m(torch.ones(4, 3)).clamp(-1, 1)).mean(),
        False,
    ),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_better_objective(name: str) -> None:
    loss, expected = OBJECTIVES[name]
    assert ppo_clip_uses_max(loss(nn.Linear(3, 1))) is expected


def norms(model: Any) -> Any:
    given = torch.randn(4, 3, requires_grad=True)
    (found,) = torch.autograd.grad(model(given).sum(), given, create_graph=True)
    return found.norm(2, dim=1)


def norms_by_hand(model: Any) -> Any:
    given = torch.randn(4, 3, requires_grad=True)
    (found,) = torch.autograd.grad(model(given).sum(), given, create_graph=True)
    return ((found**2).sum(1) + 1e-12).sqrt()


def scores(model: Any) -> Any:
    return model(torch.randn(4, 3)).mean() - model(torch.randn(4, 3)).mean()


PENALTIES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "added": (lambda m: scores(m) + 10 * ((norms(m) - 1) ** 2).mean(), False),
    "norms by hand that are too small": (
        lambda m: scores(m) + 10 * ((norms_by_hand(m) - 9) ** 2).mean(),
        False,
    ),
    "norms by hand that are too large": (
        lambda m: scores(m) - 10 * ((norms_by_hand(m) - 9) ** 2).mean(),
        True,
    ),
    "subtracted from what is turned": (lambda m: -(scores(m) - norms(m).pow(2).mean()), False),
    "subtracted": (lambda m: scores(m) - 10 * ((norms(m) - 1) ** 2).mean(), True),
    "with a negative weight": (lambda m: scores(m) + ((norms(m) - 1) ** 2).mean() * -10, True),
    "turned with the rest": (lambda m: -(scores(m) + 10 * norms(m).square().mean()), True),
    "squares alone": (
        lambda m: -(norms(m).square().mean() + m(torch.ones(4, 3)).square().mean()),
        False,
    ),
    "a square of no derivative": (lambda m: scores(m) - m(torch.ones(4, 3)).pow(2).mean(), False),
    "without a graph": (lambda m: scores(m) - (norms(m).detach() - 1).pow(2).mean(), False),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("activation", [nn.Tanh, nn.LeakyReLU, nn.ReLU])
def test_penalties_of_derivatives(name: str, activation: Any) -> None:
    loss, expected = PENALTIES[name]
    model = nn.Sequential(nn.Linear(3, 8), activation(), nn.Linear(8, 1))
    assert rewards_derivatives(loss(model)) is expected


def log_likelihood(model: Any) -> Any:
    """The log-probabilities of labels, shape (4)."""
    return model(torch.randn(4, 3)).log_softmax(1)[torch.arange(4), torch.arange(4) % 2]


def entropy(model: Any) -> Any:
    return F.cross_entropy(model(torch.randn(4, 3)), torch.arange(4) % 2)


def one_hot(model: Any) -> Any:
    return (model(torch.randn(4, 3)).log_softmax(1) * F.one_hot(torch.arange(4) % 2, 3)).sum(1)


def drawn(model: Any) -> Any:
    """Return the log-probabilities of sampled actions, shape (4), as a policy gradient has."""
    policy = torch.distributions.Categorical(logits=model(torch.randn(4, 3)))
    return policy.log_prob(policy.sample())


LIKELIHOODS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "a cross-entropy": (entropy, False),
    "a cross-entropy with a minus": (lambda m: -entropy(m), True),
    "with a minus and another term": (lambda m: 1 + m[0].bias.square().sum() - entropy(m), False),
    "by hand": (lambda m: -log_likelihood(m).mean(), False),
    "by hand without a minus": (lambda m: log_likelihood(m).mean() / 2, True),
    "weighted, as by returns": (lambda m: (log_likelihood(m) * torch.rand(4)).mean(), False),
    "of labels as vectors": (lambda m: -one_hot(m).mean(), False),
    "of labels as vectors without a minus": (lambda m: one_hot(m).mean(), True),
    "of smoothed labels": (
        lambda m: (m(torch.randn(4, 3)).log_softmax(1) * torch.tensor([0.8, 0.1, 0.1])).mean(),
        False,
    ),
    "of actions with costs": (lambda m: drawn(m).mean(), False),
    "an entropy that is to fall": (
        lambda m: -(m(x := torch.randn(4, 3)).softmax(1) * m(x).log_softmax(1)).sum(1).mean(),
        False,
    ),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihoods(name: str) -> None:
    loss, expected = LIKELIHOODS[name]
    model = nn.Sequential(nn.Linear(3, 3))
    assert lowers_likelihood(loss(model)) is expected


def policy(model: Any, weight: float, *, by_hand: bool = False) -> Any:
    scores = model(torch.ones(4, 3))
    chances, actions = torch.distributions.Categorical(logits=scores), torch.tensor([0, 1, 2, 0])
    shares = scores.log_softmax(1)
    if by_hand:
        entropy = -(scores.softmax(1) * shares).sum(1)
        return (weight * entropy - WORTH * shares.gather(1, actions[:, None])[:, 0]).mean()
    return weight * chances.entropy().mean() - (WORTH * chances.log_prob(actions)).mean()


def unsure(model: Any) -> Any:
    """A classifier that is to be sure of samples without labels."""
    shares = model(torch.randn(8, 3)).log_softmax(1)
    entropy = -(shares.exp() * shares).sum(1) - (shares.softmax(1) * shares).sum(1)
    return F.cross_entropy(model(torch.ones(4, 3)), torch.tensor([0, 1, 2, 0])) + entropy.mean()


ENTROPIES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "subtracted": (lambda m: policy(m, -0.01), False),
    "subtracted by hand": (lambda m: policy(m, -0.01, by_hand=True), False),
    "added": (lambda m: policy(m, 0.01), True),
    "added by hand": (lambda m: policy(m, 0.01, by_hand=True), True),
    "of a classifier": (unsure, False),
    "without": (lambda m: policy(m, 0.0), False),
}


@pytest.mark.parametrize("name", ENTROPIES)
def test_entropies_of_policies(name: str) -> None:
    loss, expected = ENTROPIES[name]
    assert lowers_entropy(loss(nn.Sequential(nn.Linear(3, 3)))) is expected


@pytest.mark.parametrize("maximize", [False, True])
def test_a_training_with_a_penalty_subtracted(run: Path, maximize: bool) -> None:
    critic = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(critic.parameters(), 1e-4, maximize=maximize)
    with TorchHook.attach(critic, run, save_interval=2, max_overhead=None):
        for _ in range(8):
            update(optimizer, PENALTIES["subtracted"][0](critic))
    assert contracts(run) == (set() if maximize else {"gradient_penalty_subtracted"})
