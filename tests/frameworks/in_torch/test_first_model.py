"""Which of a script's models is captured: the one that its optimizer updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin import create_trial
from tocsin.model import Mode
from tocsin_hooks.torch.first_model import FirstModel
from torch import nn
from torch.optim import SGD

from tests.frameworks.in_torch.runs import update


class Agent(nn.Module):
    """Is never called itself."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.body = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.body(x)


def batches(count: int = 6) -> Iterator[Any]:
    return (torch.randn(8, 4) for _ in range(count))


def parts() -> None:
    agent = Agent()
    optimizer = SGD(agent.parameters(), 0.01)
    for x in batches():
        update(optimizer, agent.actor(x).square().mean() + agent.critic(x).square().mean())


def parts_before_their_optimizer() -> None:
    agent = Agent()
    optimizer = None
    for x in batches():
        loss = agent.actor(x).square().mean() + agent.critic(x).square().mean()
        optimizer = optimizer or SGD(agent.parameters(), 0.01)
        update(optimizer, loss)


def part_before_the_whole() -> None:
    reader = Reader()
    optimizer = SGD(reader.parameters(), 0.01)
    for x in batches():
        update(optimizer, reader(reader.embedding(x)).square().mean())


def part_with_an_optimizer_of_its_own() -> None:
    agent = Agent()
    one, other = SGD(agent.actor.parameters(), 0.01), SGD(agent.critic.parameters(), 0.01)
    for x in batches():
        update(one, agent.actor(x).square().mean())
        update(other, agent.critic(x).square().mean())


def without_an_owner() -> None:
    actor, critic = nn.Bilinear(4, 4, 2), nn.Linear(4, 1)
    optimizer = SGD(chain(actor.parameters(), critic.parameters()), 0.01)
    for x in batches():
        update(optimizer, actor(x, x).square().mean() + critic(x).square().mean())


def frozen_in_part() -> None:
    reader = Reader()
    optimizer = SGD(reader.body.parameters(), 0.01)
    for x in batches():
        update(optimizer, reader(x).square().mean())


def features_of_another() -> None:
    """Nobody has switched off the gradients of what is not trained."""
    features, head = nn.Bilinear(4, 4, 4), nn.Linear(4, 2)
    optimizer = SGD(head.parameters(), 0.01)
    for x in batches():
        update(optimizer, head(features(x, x).detach()).square().mean())


def opponents() -> None:
    made, judged = nn.Bilinear(4, 4, 4), nn.Linear(4, 1)
    one, other = SGD(made.parameters(), 0.01), SGD(judged.parameters(), 0.01)
    for x in batches():
        fake = made(x, x)
        update(other, judged(fake.detach()).mean() - judged(x).mean())
        update(one, -judged(fake).mean())


@pytest.mark.parametrize(
    ("script", "weights"),
    [
        (parts, {"Agent_actor.weight", "Agent_critic.weight"}),
        (parts_before_their_optimizer, {"Agent_actor.weight", "Agent_critic.weight"}),
        (part_before_the_whole, {"Reader_embedding.weight", "Reader_body.weight"}),
        (part_with_an_optimizer_of_its_own, {"Linear_weight"}),
        (without_an_owner, {"Bilinear_weight"}),
        (frozen_in_part, {"Reader_embedding.weight", "Reader_body.weight"}),
        (features_of_another, {"Linear_weight"}),
        (opponents, {"Bilinear_weight"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_that_is_trained_is_captured(
    script: Callable[[], None], weights: set[str], run: Path, capsys: Any, caplog: Any
) -> None:
    capture = FirstModel(str(run), None, save_interval=4, max_overhead=None)
    script()
    capture.close(finished=True)
    trial = create_trial(str(run))
    assert set(trial.tensor_names(collection="weights")) == weights
    assert trial.tensor_names(collection="losses")
    assert not caplog.records
    assert capsys.readouterr().err.count(" is captured") == 1 + (
        script in (parts_before_their_optimizer, features_of_another)
    )


def test_a_class_that_is_asked_for_stays(run: Path) -> None:
    capture = FirstModel(str(run), "Bilinear", save_interval=1)
    features_of_another()
    capture.close(finished=True)
    assert create_trial(str(run)).modes() == [Mode.TRAIN]
    assert set(create_trial(str(run)).tensor_names(collection="weights")) == {"Bilinear_weight"}
