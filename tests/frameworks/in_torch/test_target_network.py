"""Copies of a model that value the next states: what they are given, who renews them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.model import ACTING, Role
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import contracts, indexes, update

ROWS = 16
ALIAS = {"next_state_equals_state"}
NEVER = {"target_network_never_updated"}


def kinds(run: Path) -> set[str | None]:
    """Kinds of the losses that were saved in the last steps."""
    last = indexes(run)[-2:]
    return {each.kind for one in last for each in one.entries if each.role == Role.LOSS}


def network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = network(4, 1)

    def forward(self, state: Any, action: Any) -> Any:
        return self.body(torch.cat([state, action], 1))


class Policy(nn.Module):
    """Holds its copy, and is itself called by those who act."""

    def __init__(self) -> None:
        super().__init__()
        self.q_net, self.target = network(3, 2), network(3, 2)

    def forward(self, state: Any) -> Any:
        return self.q_net(state).argmax(1)


def squares(q: Any, action: Any, target: Any) -> Any:
    return F.mse_loss(q.gather(1, action[:, None]).squeeze(1), target)


def column(q: Any, action: Any, target: Any) -> Any:
    return F.mse_loss(q.gather(1, action[:, None])[:, 0], target)


def by_hand(q: Any, action: Any, target: Any) -> Any:
    weights = torch.rand(ROWS)
    return (weights * (target - q[torch.arange(ROWS), action]).pow(2)).mean()


def all_actions(q: Any, action: Any, target: Any) -> Any:
    return F.mse_loss(q, target[:, None].expand(-1, 2))


def likelihood(q: Any, action: Any, target: Any) -> Any:
    """Of classes, with an error of some kind."""
    return (q.log_softmax(1).gather(1, action[:, None]).squeeze(1) + target).square().mean()


def density(q: Any, action: Any, target: Any) -> Any:
    """Of a policy that is to stay near another one."""
    found = torch.distributions.Categorical(logits=q).log_prob(action)
    return (found - target).square().mean()


def learn(
    run: Path,
    *,
    updates: int,
    loss: Callable[[Any, Any, Any], Any] = squares,
    overwritten: bool = False,
    renewed: int = 0,
    copied: int = 0,
    chooses: bool = False,
    detached: bool = False,
    attached: bool = False,
    deleted: bool = False,
) -> set[str]:
    """``renewed`` copies weights every so many updates, ``copied`` makes another copy. The model
    itself ``chooses`` the next action, as in double Q-learning. The targets are ``detached``, or
    ``attached``, or computed without gradients. The copy is ``deleted`` before the hook is
    closed."""
    torch.manual_seed(0)
    model = network(3, 2)
    target = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for number in range(updates):
            state, action = torch.randn(ROWS, 3), torch.randint(2, (ROWS,))
            then = state if overwritten else torch.randn(ROWS, 3)
            best = model(then).argmax(1) if chooses else None
            with nullcontext() if detached or attached else torch.no_grad():
                values = target(then) if attached else target(then).detach()
                value = values.max(1).values if best is None else values[torch.arange(ROWS), best]
                wanted = torch.randn(ROWS) + 0.9 * value
            update(optimizer, loss(model(state), action, wanted))
            if renewed and number % renewed == renewed - 1:
                for old, new in zip(target.parameters(), model.parameters(), strict=True):
                    old.data.copy_(0.1 * new.data + 0.9 * old.data)
            if copied and number % copied == copied - 1:
                target = copy.deepcopy(model)
        if deleted:
            del target
    return contracts(run)


@pytest.mark.parametrize("loss", [squares, column, by_hand])
@pytest.mark.parametrize("detached", [False, True])
def test_states_that_are_overwritten(run: Path, loss: Any, detached: bool) -> None:
    options: Any = {"loss": loss, "detached": detached, "renewed": 1}
    assert learn(run, updates=80, overwritten=True, **options) == ALIAS


def test_states_that_are_overwritten_where_the_model_chooses(run: Path) -> None:
    assert learn(run, updates=80, overwritten=True, renewed=1, chooses=True) == ALIAS


@pytest.mark.parametrize(
    ("loss", "kind"),
    [(squares, ACTING), (column, ACTING), (all_actions, None), (likelihood, None)],
)
def test_a_loss_whose_targets_move_has_no_level(run: Path, loss: Any, kind: str | None) -> None:
    learn(run, updates=80, loss=loss, renewed=1)  # of what was recorded before: nobody acts
    assert kinds(run) == {kind}


def test_gradients_may_go_into_a_copy_that_nobody_updates(run: Path) -> None:
    assert not learn(run, updates=120, renewed=1, attached=True)
    assert kinds(run) == {ACTING}


@pytest.mark.parametrize("loss", [all_actions, likelihood, density])
def test_a_teacher_is_given_the_same_samples(run: Path, loss: Any) -> None:
    assert not learn(run, updates=620, loss=loss, overwritten=True)


@pytest.mark.parametrize("loss", [squares, by_hand])
@pytest.mark.parametrize("detached", [False, True])
def test_a_copy_that_is_never_renewed(run: Path, loss: Any, detached: bool) -> None:
    # In whatever step training ends.
    assert learn(run, updates=622, loss=loss, detached=detached) == NEVER


def test_a_copy_that_is_never_renewed_and_deleted_at_the_end(run: Path) -> None:
    assert learn(run, updates=622, deleted=True) == NEVER


@pytest.mark.parametrize(
    "options",
    [
        {"updates": 622, "renewed": 1},
        {"updates": 622, "renewed": 1, "detached": True},
        {"updates": 622, "renewed": 600},
        {"updates": 80, "renewed": 1, "chooses": True},
        {"updates": 622, "copied": 250},
        {"updates": 622, "copied": 550, "deleted": True},
        {"updates": 622, "renewed": 200, "deleted": True},
        {"updates": 300},  # it may come
        {"updates": 622, "loss": all_actions},  # a teacher with samples of its own
    ],
)
def test_a_copy_that_is_renewed_or_may_be(run: Path, options: dict[str, Any]) -> None:
    assert not learn(run, **options)


def test_a_copy_beside_the_model_in_another_one(run: Path) -> None:
    policy = Policy()
    optimizer = torch.optim.SGD(policy.q_net.parameters(), 1e-2)
    with TorchHook.attach(policy, run, save_interval=5, max_overhead=None):
        for _ in range(100):
            state, action = torch.randn(ROWS, 3), torch.randint(2, (ROWS,))
            with torch.no_grad():
                policy(state[:1])
                wanted = torch.randn(ROWS) + policy.target(state).max(1).values
            update(optimizer, squares(policy.q_net(state), action, wanted))
            policy.target.load_state_dict(policy.q_net.state_dict())
    assert contracts(run) == ALIAS


@pytest.mark.parametrize("overwritten", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_two_critics_with_their_copies(run: Path, overwritten: bool, apart: bool) -> None:
    """The second one is no copy of the first, also where it has an optimizer of its own."""
    actor, critics = network(3, 1), [Critic(), Critic()]
    targets = copy.deepcopy(critics)
    parameters = [[*each.parameters()] for each in critics]
    groups = parameters if apart else [[*parameters[0], *parameters[1]]]
    optimizers = [torch.optim.SGD(each, 1e-2) for each in groups]
    ours = torch.optim.SGD(actor.parameters(), 1e-2)
    with TorchHook.attach(actor, run, save_interval=5, max_overhead=None):
        for _ in range(160):
            state, action = torch.randn(ROWS, 3), torch.rand(ROWS, 1)
            then = state if overwritten else torch.randn(ROWS, 3)
            with torch.no_grad():
                actor(state[:1])
                ahead = actor(then)
                values = torch.minimum(*(each(then, ahead) for each in targets))
            wanted = torch.randn(ROWS, 1) + 0.9 * values
            for each in optimizers:
                each.zero_grad()
            sum(F.mse_loss(each(state, action), wanted) for each in critics).backward()
            for each in optimizers:
                each.step()
            update(ours, -critics[0](state, actor(state)).mean())
            for of, to in zip(critics, targets, strict=True):
                to.load_state_dict(of.state_dict())
    assert contracts(run) == (ALIAS if overwritten else set())


def test_a_random_network_that_another_one_predicts(run: Path) -> None:
    """The two are always given the same, and nobody renews the random one."""
    model, predictor, random = network(3, 2), network(3, 5), network(3, 5).requires_grad_(False)
    target = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), 1e-2) for each in (model, predictor)]
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(320):
            state, then, action = *torch.randn(2, ROWS, 3), torch.randint(2, (ROWS,))
            with torch.no_grad():
                wanted = torch.randn(ROWS) + target(then).max(1).values
            for each in optimizers:
                each.zero_grad()
            squares(model(state), action, wanted).backward()
            optimizers[0].step()
            F.mse_loss(predictor(then), random(then).detach()).backward()
            optimizers[1].step()
            target.load_state_dict(model.state_dict())
    assert not contracts(run)


class Likelihood(nn.Module):
    """Of an answer to a prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(6, 1)

    def forward(self, prompt: Any, answer: Any) -> Any:
        return self.body(torch.cat([prompt, answer], 1)).squeeze(1)


def test_the_reference_of_a_policy_that_learns_preferences(run: Path) -> None:
    model = Likelihood()
    reference = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(622):
            prompt, better, worse = torch.randn(3, ROWS, 3)
            with torch.no_grad():
                before = -reference(prompt, worse) + reference(prompt, better)
            optimizer.zero_grad()
            now = model(prompt, better) - model(prompt, worse)
            (-F.logsigmoid(now - before).mean()).backward()
            optimizer.step()
    assert not contracts(run)


class OfAMap(nn.Module):
    """Values actions by a map, which stays, and a place on it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(5, 2)

    def forward(self, layout: Any, place: Any) -> Any:
        return self.body(torch.cat([layout, place], 1))


def test_a_part_of_the_state_that_stays(run: Path) -> None:
    model = OfAMap()
    target = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(80):
            layout, action = torch.randn(ROWS, 2), torch.randint(2, (ROWS,))
            state, then = torch.randn(2, ROWS, 3)
            with torch.no_grad():
                wanted = torch.randn(ROWS) + target(layout, then).max(1).values
            update(optimizer, squares(model(layout, state), action, wanted))
            target.load_state_dict(model.state_dict())
    assert not contracts(run)


def test_a_buffer_that_is_filled_again(run: Path) -> None:
    model = network(3, 2)
    target = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    buffer = torch.empty(ROWS, 3)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(80):
            with torch.no_grad():
                wanted = torch.randn(ROWS) + target(buffer.normal_()).max(1).values
            update(optimizer, squares(model(buffer.normal_()), torch.randint(2, (ROWS,)), wanted))
            target.load_state_dict(model.state_dict())
    assert not contracts(run)
