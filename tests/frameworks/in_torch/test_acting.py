"""Models that act, whose losses have no level that is good, and others that look alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.model import ACTING, COMPETING, Mode, Role
from tocsin.tensors import LocalStorage, index_objects, read_index, read_values
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.torch import TorchHook
from torch import nn
from torch.distributions import Categorical, Distribution, Independent, Normal

from tests.frameworks.in_torch.runs import entries, indexes, update

ASKED = Capture(collections={"skills": CollectionConfig(save_raw_tensor=True)})


def kinds(run: Path) -> list[str | None]:
    """Those of losses, save by save."""
    return [each.kind for each in entries(run, Role.LOSS)]


class Policy(nn.Module):
    """Called as a whole, or by its parts."""

    def __init__(self, given: Callable[[Any], Any] = lambda scores: scores) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(8, 4), nn.Linear(8, 1)
        self.given = given

    def forward(self, x: Any) -> Any:
        return self.given(self.actor(x))


def values(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
    """Deep Q-learning that acts with gradients recorded."""
    for _ in range(3):
        model(torch.randn(1, 8)).argmax().item()
    update(optimizer, F.mse_loss(model(torch.randn(32, 8)), torch.randn(32, 4)))


def now_and_then(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
    """The beginning of deep Q-learning: most actions are drawn, and the model is not asked."""
    if number % 5 == 4:
        with torch.no_grad():
            model(torch.randn(1, 8)).argmax().item()
    update(optimizer, F.mse_loss(model(torch.randn(32, 8)), torch.randn(32, 4)))


def one_by_one(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
    """Samples of changing length, one after the other."""
    for _ in range(4):
        model(torch.randn(1, 8)).square().mean().backward()
    update(optimizer, model(torch.randn(1, 8)).square().mean())


def last_of_one(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
    """Batches of which each fourth has a single sample."""
    size = 1 if number % 4 == 3 else 32
    update(optimizer, F.mse_loss(model(torch.randn(size, 8)), torch.randn(size, 4)))


def drawn(of: Callable[[Any], Distribution]) -> Callable[..., None]:
    def step(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
        """An actor whose actions are drawn by what it gives."""
        chances = of(model(torch.randn(16, 8)))
        action = chances.sample()
        update(optimizer, -(chances.log_prob(action) * torch.randn(16)).mean())

    return step


def by_parts(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
    """Proximal policy optimisation, by methods that call the parts."""
    if number % 8 == 0:
        with torch.no_grad():
            for _ in range(16):
                Categorical(logits=model.actor(torch.randn(4, 8))).sample()
                model.critic(torch.randn(4, 8))
    x = torch.randn(32, 8)
    update(optimizer, model.actor(x).square().mean() + model.critic(x).square().mean())


def part_with_gradients(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
    """A part acts state by state, and keeps gradients that nobody asks for."""
    states = torch.randn(16, 8)
    for state in states:
        model.actor(state[None]).argmax()
    update(optimizer, model.actor(states).square().mean())


def teacher(model: Policy, optimizer: torch.optim.Optimizer, number: int) -> None:
    """A part gives targets, without gradients."""
    x = torch.randn(32, 8)
    with torch.no_grad():
        wanted = model.critic(x)
    update(optimizer, (model.actor(x) - wanted).square().mean())


def as_given(given: Any) -> Any:
    return given


ACTS: dict[str, tuple[Callable[[Any], Any], Callable[..., None], str | None]] = {
    "values": (as_given, values, ACTING),
    "now and then": (as_given, now_and_then, ACTING),
    "one by one": (as_given, one_by_one, None),
    "last of one": (as_given, last_of_one, None),
    "drawn by scores": (as_given, drawn(lambda s: Categorical(logits=s)), ACTING),
    "drawn by chances": (lambda s: s.softmax(1), drawn(lambda p: Categorical(p)), ACTING),
    "drawn by means": (
        as_given,
        drawn(lambda m: Independent(Normal(m, torch.ones(4)), 1)),
        ACTING,
    ),
    "returned as a distribution": (lambda s: Categorical(logits=s), drawn(as_given), ACTING),
    "by parts": (as_given, by_parts, ACTING),
    "part with gradients": (as_given, part_with_gradients, ACTING),
    "teacher": (as_given, teacher, None),
}


@pytest.mark.parametrize("name", ACTS)
def test_which_models_act(name: str, run: Path) -> None:
    given, step, expected = ACTS[name]
    model = Policy(given)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, save_interval=4, max_overhead=None) as hook:
        for number in range(60):
            step(model, optimizer, number)
        assert hook.stats.errors == 0
    assert kinds(run)[-1] == expected


def test_no_constant_guess_is_a_measure_of_values(run: Path) -> None:
    model = Policy()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=4, max_overhead=None):
        for number in range(48):
            values(model, optimizer, number)
    storage = LocalStorage(run)
    rows = []
    for each in index_objects(storage):
        index = read_index(storage, each)
        names = [entry.name for entry in index.entries if entry.role == Role.SKILL]
        rows += read_values(storage, index, names).values()
    last = torch.tensor(rows[-1])
    assert last[:, 2].isnan().all()
    assert last[:, :2].isfinite().all()


@pytest.mark.parametrize(
    "watched", [{"generator"}, {"discriminator"}, {"generator", "discriminator"}]
)
def test_samples_of_a_generator_that_are_used_twice(watched: set[str], run: Path) -> None:
    """Its optimizer's gradients come from a pass of the discriminator alone."""
    torch.manual_seed(0)
    nets = {"generator": nn.Linear(4, 8), "discriminator": nn.Linear(8, 1)}
    generator, discriminator = nets["generator"], nets["discriminator"]
    makes, judges = (torch.optim.Adam(each.parameters(), 1e-3) for each in nets.values())
    hooks = {
        name: TorchHook.attach(nets[name], run / name, save_interval=4, max_overhead=None)
        for name in sorted(watched)
    }
    judged = nn.BCEWithLogitsLoss()
    real, fake = torch.ones(16, 1), torch.zeros(16, 1)
    for _ in range(24):
        discriminator.zero_grad()
        judged(discriminator(torch.randn(16, 8)), real).backward()
        made = generator(torch.randn(16, 4))
        judged(discriminator(made.detach()), fake).backward()
        judges.step()
        generator.zero_grad()
        judged(discriminator(made), real).backward()
        makes.step()
    for name, hook in hooks.items():
        hook.close()
        assert hook.stats.errors == 0
        assert kinds(run / name)[-1] == COMPETING


def test_a_critic_is_no_evaluation_of_its_generator(run: Path) -> None:
    """Several of its updates follow samples that were drawn without gradients."""
    torch.manual_seed(0)
    model, critic = nn.Sequential(nn.Linear(4, 8), nn.Dropout()), nn.Linear(8, 1)
    makes, judges = (torch.optim.Adam(each.parameters(), 1e-3) for each in (model, critic))
    judged = nn.BCEWithLogitsLoss()
    with TorchHook.attach(model, run, save_interval=4, max_overhead=None):
        for _ in range(24):
            model.eval()
            for _ in range(3):
                with torch.no_grad():
                    made = model(torch.randn(16, 4))
                update(judges, judged(critic(made), torch.zeros(16, 1)))
            model.train()
            update(makes, judged(critic(model(torch.randn(16, 4))), torch.ones(16, 1)))
    found = indexes(run)
    of = {mode: [e for i in found if i.mode is mode for e in i.entries] for mode in Mode}
    assert any(each.role == Role.LOSS for each in of[Mode.TRAIN])
    assert not any(each.role == Role.LOSS for each in of[Mode.EVAL])


@pytest.mark.parametrize(
    ("by_way", "expected"), [(True, COMPETING), (False, None)], ids=["opponents", "two models"]
)
def test_another_model_is_updated_without_a_pass_of_this_one(
    by_way: bool, expected: str | None, run: Path
) -> None:
    """The generator first, and then the discriminator with the same samples; or two models that
    have nothing to do with each other."""
    torch.manual_seed(0)
    model, other = nn.Linear(4, 8), nn.Linear(8, 1)
    ours, its = (torch.optim.Adam(each.parameters(), 1e-3) for each in (model, other))
    judged = nn.BCEWithLogitsLoss()
    with TorchHook.attach(model, run, save_interval=4, max_overhead=None) as hook:
        for _ in range(24):
            ours.zero_grad()
            made = model(torch.randn(16, 4))
            given = made if by_way else torch.randn(16, 8)
            its.zero_grad(set_to_none=False)
            (judged(other(made), torch.ones(16, 1)) if by_way else made.square().mean()).backward()
            ours.step()
            its.zero_grad()
            loss = judged(other(torch.randn(16, 8)), torch.ones(16, 1))
            (loss + judged(other(given.detach()), torch.zeros(16, 1))).backward()
            its.step()
        assert hook.stats.errors == 0
    assert kinds(run)[-1] == expected
