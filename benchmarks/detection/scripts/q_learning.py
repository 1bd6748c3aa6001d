"""A value network with a target network and a memory, in a corridor with a treasure."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, optimizer_of, scheduler_of

SIDE, PATIENCE = 5, 12
MOVES = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1]])
GOAL = torch.tensor([3, 4])


def see(at: Tensor) -> Tensor:
    return F.one_hot(at, SIDE).flatten(1).float()


def step_from(at: Tensor, move: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    after = (at + MOVES[move]).clamp(0, SIDE - 1)
    done = (after == GOAL).all(1)
    return after, done.float() - 0.04, done


def value(model: Any) -> float:
    """Return the share of places from which the greedy walk takes a shortest way."""
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    away = (places - GOAL).abs().sum(1)
    at, arrived = places, torch.full((len(places),), 99)
    arrived[away == 0] = 0
    with torch.no_grad():
        for step in range(1, PATIENCE):
            at, _, done = step_from(at, model(see(at)).argmax(1))
            arrived = torch.where(done & (arrived == 99), torch.tensor(step), arrived)
    return (arrived <= away).double().mean().item()


def train(
    seed: int, hook: Any, rate: float = 2e-3, steps: int = 1500, batch: int = 32,
    loss: str = "huber", renew: int = 50, schedule: str = "constant", double: bool = False,
    fault: str = "", discount: float = 0.9, walkers: int = 4,
) -> float:  # fmt: skip
    begin(seed)
    model = dense([2 * SIDE, 64, 4])
    target = copy.deepcopy(model)
    trained = target if fault == "other model" else model
    optimizer = optimizer_of("adam", trained.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    criterion: Any = torch.nn.SmoothL1Loss() if loss == "huber" else torch.nn.MSELoss()
    memory: list[Tensor] = []
    at = torch.randint(SIDE, (walkers, 2))
    hook.torch(model)
    for step in range(steps):
        curious = max(0.1, 1 - 2 * step / steps)
        with torch.no_grad():
            best = model(see(at)).argmax(1)
        move = torch.where(torch.rand(walkers) < curious, torch.randint(4, (walkers,)), best)
        after, reward, done = step_from(at, move)
        memory.append(torch.cat([at, move[:, None], after, done[:, None], reward[:, None]], 1))
        restart = done | (torch.rand(walkers) < 0.05)
        at = torch.where(restart[:, None], torch.randint(SIDE, (walkers, 2)), after)
        rows = torch.cat([memory[n] for n in torch.randint(len(memory), (batch // walkers,))])
        was, did, then = rows[:, :2].long(), rows[:, 2].long(), rows[:, 3:5].long()
        if fault == "actions of others":
            did = did[torch.randperm(len(did))]
        if fault == "next states overwritten":
            then = was
        with torch.set_grad_enabled(fault == "targets not detached"):
            ahead = (model if fault == "targets not detached" else target)(see(then))
            choice = (model(see(then)) if double else ahead).argmax(1)
            later = ahead.gather(1, choice[:, None]).squeeze(1)
        gain = rows[:, 6]
        if fault == "no reward":
            gain = torch.zeros_like(gain)
        if fault == "wrong sign":
            gain = -gain
        wanted = gain + discount * (1 - rows[:, 5]) * later
        if fault == "no end":
            wanted = gain + 1.1 * later.clamp(min=0) + 0.1
        found = model(see(was)).gather(1, did[:, None])
        error = criterion(found if fault == "broadcast" else found.squeeze(1), wanted)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        scheduler.step()
        if fault == "target never renewed":
            continue
        if step % (1 if fault == "no end" else renew) == 0:
            target.load_state_dict(model.state_dict())
    return value(model)


CASES = cases(
    "q-learning",
    train,
    {
        "plain": {},
        "squares": {"loss": "squares"},
        "double": {"double": True},
        "target renewed rarely": {"renew": 150, "steps": 2500},
        "one cycle": {"schedule": "one cycle", "rate": 4e-3},
    },
    {
        "(N, 1) against (N)": ("broadcast no-skill", {"fault": "broadcast"}),
        "actions of others": ("no-skill", {"fault": "actions of others"}),
        "no reward": ("no-skill collapse", {"fault": "no reward"}),
        "wrong sign": ("no-skill", {"fault": "wrong sign"}),
        "values grow for ever": ("worse fast", {"fault": "no end"}),
        "next states overwritten": (
            "target no-skill inputs", {"fault": "next states overwritten"},
        ),
        "targets not detached": ("target no-skill worse", {"fault": "targets not detached"}),
        "target never renewed": ("target no-skill slow", {"fault": "target never renewed"}),
        "optimizer of the target": ("unbound slow", {"fault": "other model"}),
        "rate x 1000": ("fast dead worse", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)  # fmt: skip
