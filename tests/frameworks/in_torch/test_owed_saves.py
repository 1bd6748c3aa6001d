"""Saves of steps without a loss, made up for by those that have one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.model import Mode, Role
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.owed_saves import OwedSaves
from torch import nn
from torch.distributions import Categorical


def saved(steps: str, interval: int) -> str:
    """Of each step of training whether it is saved.

    ``u`` ends by an update, ``l`` has a loss but no update, ``n`` neither.
    """
    owed, found = OwedSaves(), ""
    for number, step in enumerate(steps):
        due = owed.is_due or number % interval == 0
        saving = due and not owed.begins(due=due)
        found += "S" if saving else "."
        if step == "u":
            owed.updated()
        owed.ends(saved=saving, with_loss=step == "l")
    return found


@pytest.mark.parametrize(
    ("steps", "interval", "expected"),
    [
        ("uuuuuuu", 3, "S..S..S"),
        ("lululul", 3, "S..S..S"),  # an update is skipped now and then
        ("llllllll", 4, "S...S..."),  # a loop that updates by itself
        ("nunununu", 4, "SS...S.."),  # a GAN's generator, whose samples are detached at first
        ("nnnunnnunnnunnnu", 4, "SSSSSSSS...S...S"),
        ("nnnnnnnnnnuuuuuu", 4, "SSSSS...S..SS..."),  # tries in vain; an update shows when
        ("nnnnnnnnnnnn", 8, "SSSS....S..."),  # nothing is ever differentiated
        (
            "nuuuuu",
            1,
            "SSSSSS",
        ),  # two passes before the first update, which are taken for two steps
        ("nuunuuuuuuuuuuuuu", 8, "SS......S.......S"),
    ],
)
def test_which_steps_are_saved(steps: str, interval: int, expected: str) -> None:
    assert saved(steps, interval) == expected


def with_loss(found: dict[Any, dict[str, Any]]) -> list[int]:
    return [
        step
        for (mode, step), entries in sorted(found.items(), key=lambda item: item[0][1])
        if mode is Mode.TRAIN and any(entry.role == Role.LOSS for entry in entries.values())
    ]


@pytest.mark.parametrize("critic", [1, 2, 5])
def test_a_generator_is_saved_with_its_loss(
    critic: int, run: Path, written: Callable[[Path], Any]
) -> None:
    made, judged = nn.Linear(4, 8), nn.Linear(8, 1)
    one, other = (torch.optim.RMSprop(each.parameters(), 1e-4) for each in (made, judged))
    hook = TorchHook.attach(made, run, save_interval=10, max_overhead=None)
    for number in range(40 * critic):
        other.zero_grad()
        fake = made(torch.randn(16, 4)).detach()
        (judged(fake).mean() - judged(torch.randn(16, 8)).mean()).backward()
        other.step()
        if number % critic == 0:
            one.zero_grad()
            (-judged(made(torch.randn(16, 4))).mean()).backward()
            one.step()
    hook.close()
    assert hook.stats.errors == 0
    found = with_loss(written(run))
    assert len(found) >= 6
    assert len(written(run)) <= len(found) + 3


def test_an_episode_is_saved_with_its_loss(run: Path, written: Callable[[Path], Any]) -> None:
    """One update each of 150 passes, which are one step."""
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    hook = TorchHook.attach(model, run, save_interval=3, max_overhead=None)
    for _ in range(14):
        likely = []
        for _ in range(150):
            actions = Categorical(logits=model(torch.randn(1, 4)))
            likely.append(actions.log_prob(actions.sample()))
        optimizer.zero_grad()
        (-torch.cat(likely) * torch.randn(150)).sum().backward()
        optimizer.step()
    hook.close()
    assert hook.stats.errors == 0
    found = with_loss(written(run))
    assert len(found) == 5
