"""How far the voltage has dropped at each house of a street's feeder: a graph network.

A feeder is a tree from the transformer with up to 9 houses; a cable has ohms, a house draws or
feeds in watts. Smaller trees are padded, and a mask says so. Messages go along the cables, up and
down by weights of their own. The skill is the share of the drops' variance that is explained, on
other feeders.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks.detection.case import cases

NODES = 10


class Feeders(NamedTuple):
    """Watts and ohms as (N, NODES, 2), from each node the cable up, volts lost, and a mask."""

    x: Tensor
    cables: Tensor
    drop: Tensor
    mask: Tensor


def feeders(count: int, seed: int, noise: float = 0.05) -> Feeders:
    draw = torch.Generator().manual_seed(seed)
    nodes = torch.randint(5, NODES + 1, (count, 1), generator=draw)
    mask = (torch.arange(NODES) < nodes).float()
    watts = (900 + 1400 * torch.randn(count, NODES, generator=draw)) * mask
    watts[:, 0] = 0
    ohms = (0.02 + 0.08 * torch.rand(count, NODES, generator=draw)) * mask
    ohms[:, 0] = 0
    cables, way = torch.zeros(count, NODES, NODES), torch.zeros(count, NODES, NODES)
    every = torch.arange(count)
    for node in range(1, NODES):
        back = torch.randint(1, 4, (count,), generator=draw)
        parent = (node - back).clamp(min=0)
        there = mask[:, node]
        cables[every, node, parent] = there
        way[:, node] = way[every, parent]
        way[every, node, node] = there
    shared = torch.einsum("bik,bjk,bk->bij", way, way, ohms)
    drop = torch.einsum("bij,bj->bi", shared, watts) / 230
    drop = (drop + noise * torch.randn(count, NODES, generator=draw)) * mask
    return Feeders(torch.stack([watts, ohms], 2), cables, drop, mask)


class Layer(nn.Module):
    def __init__(self, width: int, norm: bool) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()

    def forward(self, h: Tensor, cables: Tensor) -> Tensor:
        n = self.norm(h)
        near = cables.transpose(1, 2) @ self.up(n) + cables @ self.down(n)
        return h + torch.relu(self.own(n) + near)


class FeederNet(nn.Module):
    """A state for each node, rounds of messages, and what the whole feeder draws."""

    def __init__(self, width: int, rounds: int, norm: bool, fault: str) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.layers = nn.ModuleList(Layer(width, norm) for _ in range(rounds))
        self.last = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        if fault == "sigmoid at the end":
            self.last.append(nn.Sigmoid())
        if fault == "weights from a wide normal":
            for p in self.layers.parameters():
                nn.init.normal_(p)
        self.fault = fault

    def forward(self, x: Tensor, cables: Tensor) -> Tensor:
        if self.fault == "cables of another feeder":
            cables = cables.roll(1, 0)
        h = torch.relu(self.first(x))
        for layer in self.layers:
            h = layer(h, cables)
        found: Tensor = self.last(h).squeeze(2)
        return found


def loss_of(found: Tensor, drop: Tensor, mask: Tensor, kind: str) -> Tensor:
    gap = found - drop
    if kind == "mae":
        return (gap.abs() * mask).sum() / mask.sum()
    if kind == "sum":
        return (gap**2 * mask).sum()
    return (gap**2 * mask).sum() / mask.sum()


class Trainer:
    """Batches of feeders, one update for each."""

    def __init__(self, model: FeederNet, opt: Any, scheduler: Any, how: dict[str, Any]) -> None:
        self.model, self.opt, self.scheduler, self.how = model, opt, scheduler, how

    def update(self, batch: list[Tensor]) -> float:
        x, cables, drop, mask = batch
        self.model.train()
        if self.how["fault"] != "gradients kept":
            self.opt.zero_grad()
        loss = loss_of(self.model(x, cables), drop, mask, self.how["loss"])
        loss.backward()
        if self.how["clip"]:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.how["clip"])
        self.opt.step()
        self.scheduler.step()
        return loss.item()

    @torch.no_grad()
    def predict(self, part: Feeders) -> Tensor:
        self.model.eval()
        found: Tensor = self.model(part.x, part.cables)
        return found


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 3e-3, batch: int = 16, loss: str = "",
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant",
    norm: bool = False, clip: float = 0.0, count: int = 2000,
    slow_head: bool = False, evaluate: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data = feeders(count, 19 * seed + 7)
    held, test = feeders(200, 19 * seed + 8), feeders(600, 19 * seed + 9)
    real = data.mask > 0
    mean, spread = data.x[real].mean(0), data.x[real].std(0)
    volts = data.drop[real].std()
    if fault == "watts as they are":
        mean, spread = torch.zeros(2), torch.ones(2)

    def scaled(part: Feeders) -> Feeders:
        x = (part.x - mean) / spread * part.mask[:, :, None]
        return part._replace(x=x, drop=part.drop / volts)

    data = scaled(data)
    if fault == "kilowatts on new feeders":
        held, test = (p._replace(x=p.x * torch.tensor([1e-3, 1.0])) for p in (held, test))
    held, test = scaled(held), scaled(test)
    if fault == "houses counted from the other end":
        data = data._replace(drop=data.drop.flip(1), mask=data.mask.flip(1))
    model = FeederNet(24, 4, norm, fault)
    groups: Any = model.parameters()
    if slow_head:
        head = list(model.last.parameters())
        body = [p for n, p in model.named_parameters() if not n.startswith("last")]
        groups = [{"params": body}, {"params": head, "lr": rate / 5}]
    opt = optimizer_of(optimizer, groups, rate, decay)
    how = {"fault": fault, "loss": loss, "clip": clip}
    trainer = Trainer(model, opt, scheduler_of(opt, schedule, steps), how)
    hook.torch(model)
    loader = DataLoader(list(zip(*data, strict=True)), batch, shuffle=True)
    done = 0
    while done < steps:
        for part in loader:
            if done < steps:
                trainer.update(part)
            done += 1
        if evaluate:
            loss_of(trainer.predict(held), held.drop, held.mask, loss)
    found, true = (v[test.mask > 0].double() for v in (trainer.predict(test), test.drop))
    skill = 1 - ((found - true) ** 2).mean().item() / true.var().item()
    return skill if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "feeder voltages",
    train,
    {
        "plain": {},
        "sum of squares, clipped": {"loss": "sum", "clip": 5.0, "schedule": "cosine"},
        "absolute errors, one cycle": {"loss": "mae", "schedule": "one cycle", "rate": 6e-3},
        "layer norm, decay, restarts": {
            "norm": True, "optimizer": "adamw", "decay": 0.03, "schedule": "restarts",
        },
        "head slower than the body": {"slow_head": True},
        "momentum after a warm-up": {"optimizer": "momentum", "rate": 2e-2, "schedule": "warmup"},
        "four feeders at a time, not evaluated": {
            "batch": 4, "steps": 3000, "schedule": "cosine", "evaluate": False,
        },
    },
    {
        "cables of another feeder": ("no-skill", {"fault": "cables of another feeder"}),
        "watts as they are": (
            "inputs fast dead worse no-skill not-finite",
            {"fault": "watts as they are", "optimizer": "momentum", "rate": 2e-2},
        ),
        "kilowatts on new feeders": ("inputs worse overfit", {"fault": "kilowatts on new feeders"}),
        "houses counted from the other end": (
            "no-skill worse", {"fault": "houses counted from the other end"},
        ),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "sigmoid at the end": ("range saturated", {"fault": "sigmoid at the end"}),
        "weights from a wide normal": (
            "fast worse no-skill not-finite dead", {"fault": "weights from a wide normal"},
        ),
        "rate of 0.1": ("fast dead no-skill worse", {"rate": 0.1}),
    },
)  # fmt: skip
