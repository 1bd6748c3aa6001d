"""Trains one small loop, with or without a hook, and prints the CPU time of its thread as JSON."""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Callable
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import nn
from torch.distributions import Categorical

Step = Callable[[], None]


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for one, other in pairwise(sizes):
        layers += [nn.Linear(one, other), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def update(optimizer: torch.optim.Optimizer, loss: Any) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def classifier(width: int, samples: int) -> tuple[nn.Module, Step]:
    model, truth = mlp(32, width, width, 10), torch.randn(32, 10)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step() -> None:
        given = torch.randn(samples, 32)
        update(optimizer, F.cross_entropy(model(given), (given @ truth).argmax(1)))

    return model, step


def two_optimizers() -> tuple[nn.Module, Step]:
    model, own = classifier(64, 64)
    other = mlp(32, 64, 1)
    optimizer = torch.optim.Adam(other.parameters(), 1e-3)

    def step() -> None:
        own()
        given = torch.randn(64, 32)
        update(optimizer, (other(given).squeeze(1) - given[:, 0]).square().mean())

    return model, step


def policy_gradient() -> tuple[nn.Module, Step]:
    """Episodes of changing length, an action at a time."""
    model = mlp(4, 128, 2)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def step() -> None:
        state, logs, rewards = torch.randn(4), [], []
        for _ in range(int(torch.randint(8, 24, ()))):
            chances = Categorical(logits=model(state.unsqueeze(0)))
            action = chances.sample()
            logs.append(chances.log_prob(action))
            rewards.append(float(state[0] * (2 * action - 1)))
            state = torch.randn(4)
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        update(optimizer, -(torch.cat(logs) * (returns - returns.mean())).sum())

    return model, step


def q_learning() -> tuple[nn.Module, Step]:
    model, target = mlp(4, 128, 2), mlp(4, 128, 2)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    number = [0]

    def step() -> None:
        number[0] += 1
        if torch.rand(()) > 0.2:
            with torch.no_grad():
                model(torch.randn(1, 4)).argmax()
        states, then, actions = torch.randn(64, 4), torch.randn(64, 4), torch.randint(2, (64, 1))
        with torch.no_grad():
            wanted = states[:, :1] + 0.9 * target(then).max(1, keepdim=True).values
        update(optimizer, F.mse_loss(model(states).gather(1, actions), wanted))
        if number[0] % 100 == 0:
            target.load_state_dict(model.state_dict())

    return model, step


def opponents() -> tuple[nn.Module, Step]:
    maker, judge = mlp(8, 64, 32), mlp(32, 64, 1)
    makes = torch.optim.Adam(maker.parameters(), 1e-3)
    judges = torch.optim.Adam(judge.parameters(), 1e-3)
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    loss = F.binary_cross_entropy_with_logits

    def step() -> None:
        made = maker(torch.randn(64, 8))
        update(judges, loss(judge(torch.randn(64, 32)), ones) + loss(judge(made.detach()), zeros))
        update(makes, loss(judge(made), ones))

    return judge, step


LOOPS: dict[str, Callable[[], tuple[nn.Module, Step]]] = {
    "1 ms": lambda: classifier(208, 208),
    "4 ms": lambda: classifier(384, 320),
    "10 ms": lambda: classifier(640, 352),
    "two optimizers": two_optimizers,
    "policy gradient": policy_gradient,
    "Q-learning": q_learning,
    "opponents": opponents,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--hook", action="store_true")
    parser.add_argument("--saves-only", action="store_true", help="without rules on every step")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", help="the folder of the run; default: one that is deleted")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.getLogger("tocsin").setLevel(logging.ERROR)
    model, step = LOOPS[given.loop]()
    for _ in range(20):  # what PyTorch prepares at first
        step()
    with TemporaryDirectory() as folder:
        run = (given.out or folder) if given.hook else None
        found = measured(model, step, given.steps, run, saves_only=given.saves_only)
        print(json.dumps(found))


def rules_on_saves() -> Any:
    """A watch file with the rules of the profile that read no step between the saves."""
    from tocsin.model import Role
    from tocsin.rules import RECOMMENDED, TRAINING, build, rule_names
    from tocsin.watch import RuleConfig, Watch

    def reads_each_step(name: str) -> bool:
        reads = build(name, {}, RECOMMENDED)[0].reads().tensors.values()
        return any(Role.INTERVAL in read.roles for read in reads)

    names = rule_names(RECOMMENDED, TRAINING)
    return Watch(rules=tuple(RuleConfig(each) for each in names if not reads_each_step(each)))


def measured(
    model: nn.Module, step: Step, steps: int, run: str | None, *, saves_only: bool = False
) -> dict[str, Any]:
    """Seconds of all, and of each step; of those the hook says it took, and the steps it saved."""
    if run is not None:
        from tocsin_hooks.torch import TorchHook

        TorchHook.attach(nn.Linear(1, 1), f"{run}/warm").close()  # imports are paid once
    each, saved, last = [], [], 0
    begun = time.thread_time()
    watch = rules_on_saves() if saves_only else None
    hook = TorchHook.attach(model, f"{run}/run", watch=watch) if run is not None else None
    attached = time.thread_time() - begun
    for number in range(steps):
        before = time.thread_time()
        step()
        each.append(time.thread_time() - before)
        if hook is not None and hook.hook.saving:  # it goes on until the next step begins
            saved.append(number)
    before = time.thread_time()
    seconds = hook.stats.seconds if hook is not None else 0.0
    if hook is not None:
        hook.close()
    last = time.thread_time() - before
    return {
        "seconds": attached + sum(each) + last,
        "each": each,
        "metered": seconds,
        "saved": saved,
    }


if __name__ == "__main__":
    main()
