"""Kinds of programs from their graphs of calls: a graph isomorphism network, four kinds.

A function has noisy measures of its type (reads files, opens sockets, ciphers ...); all kinds have
the same types, but differ in which type calls which. Graphs of a batch are joined to one with
shifted edges. The skill is the mean recall above chance, of other programs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import balanced_skill, begin, normal, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

TYPES, KINDS = 6, 4
CALLS = 1.3 * normal(KINDS, TYPES, TYPES, seed=77)  # how gladly a type calls another


class Program(NamedTuple):
    functions: Tensor
    calls: Tensor  # from, to
    kind: int


def programs(count: int, seed: int) -> list[Program]:
    draw = torch.Generator().manual_seed(seed)
    found = []
    for kind in torch.randint(KINDS, (count,), generator=draw).tolist():
        size = int(torch.randint(10, 24, (1,), generator=draw))
        types = torch.randint(TYPES, (size,), generator=draw)
        gladly = CALLS[kind][types][:, types].exp().fill_diagonal_(0).flatten()
        chosen = torch.multinomial(gladly, 2 * size, generator=draw)
        measures = F.one_hot(types, TYPES) + 0.25 * torch.randn(size, TYPES, generator=draw)
        found.append(Program(measures, torch.stack([chosen // size, chosen % size]), kind))
    return found


def joined(some: list[Program], fault: str = "") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Functions and calls of all, the number of each function's program, and the kinds."""
    sizes = torch.tensor([len(p.functions) for p in some])
    shifts = (sizes.cumsum(0) - sizes).tolist()
    if fault == "calls not shifted":
        shifts = [0] * len(some)
    calls = torch.cat([p.calls + shift for p, shift in zip(some, shifts, strict=True)], 1)
    program = torch.repeat_interleave(torch.arange(len(some)), sizes)
    kinds = torch.tensor([p.kind for p in some])
    return torch.cat([p.functions for p in some]), calls, program, kinds


class Convolution(nn.Module):
    """A function, who calls it and whom it calls."""

    def __init__(self, inputs: int, width: int, norm: bool) -> None:
        super().__init__()
        self.first = nn.Linear(3 * inputs, width)
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.second = nn.Linear(width, width)

    def forward(self, h: Tensor, calls: Tensor) -> Tensor:
        callers = torch.zeros_like(h).index_add(0, calls[1], h[calls[0]])
        called = torch.zeros_like(h).index_add(0, calls[0], h[calls[1]])
        inner = self.norm(self.first(torch.cat([h, callers, called], 1))).relu()
        out: Tensor = self.second(inner).relu()
        return out


class CallNet(nn.Module):
    def __init__(self, layers: int, width: int, norm: bool, dropout: float, readout: str) -> None:
        super().__init__()
        sizes = [TYPES, *[width] * layers]
        self.layers = nn.ModuleList(
            Convolution(inputs, width, norm) for inputs in sizes[:-1]
        )  # fmt: skip
        self.dropout, self.readout = nn.Dropout(dropout), readout
        self.head = nn.Linear(width, KINDS)

    def forward(self, functions: Tensor, calls: Tensor, program: Tensor) -> Tensor:
        h, count = functions, int(program[-1]) + 1
        for layer in self.layers:
            h = layer(h, calls)
        pooled = h.new_zeros(count, h.shape[1]).index_add(0, program, h)
        if self.readout == "mean":
            pooled = pooled / torch.bincount(program)[:, None]
        if self.readout == "of the batch":
            pooled = h.mean(0, keepdim=True).expand(count, -1)
        scores: Tensor = self.head(self.dropout(pooled))
        return scores


def loss_of(scores: Tensor, kinds: Tensor, loss: str, smoothing: float) -> Tensor:
    if loss == "nll of scores":
        return F.nll_loss(scores, kinds)
    if loss == "sum":
        return F.cross_entropy(scores, kinds, reduction="sum")
    return F.cross_entropy(scores, kinds, label_smoothing=smoothing)


def train_one_epoch(net: nn.Module, batches: list[list[Program]], steering: Any, loss: str,
                    smoothing: float, accumulate: int, clip: float, dropped: float,
                    fault: str) -> None:  # fmt: skip
    net.train()
    steering.zero_grad()
    for number, some in enumerate(batches, 1):
        functions, calls, program, kinds = joined(some, fault)
        if dropped:
            calls = calls[:, torch.rand(calls.shape[1]) >= dropped]
        error = loss_of(net(functions, calls, program), kinds, loss, smoothing)
        (error / accumulate).backward()
        if number % accumulate == 0:
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            steering.step()
            steering.zero_grad()


@torch.no_grad()
def evaluate(net: nn.Module, some: list[Program], loss: str, fault: str) -> tuple[float, float]:
    net.eval()
    functions, calls, program, kinds = joined(some, fault)
    scores = net(functions, calls, program)
    return loss_of(scores, kinds, loss, 0.0).item(), balanced_skill(scores, kinds)


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 12, batch: int = 32, count: int = 2000,
    optimizer: str = "adam", decay: float = 0.0, layers: int = 2, norm: bool = False,
    dropout: float = 0.0, readout: str = "mean", loss: str = "", smoothing: float = 0.0,
    accumulate: int = 1, clip: float = 0.0, dropped: float = 0.0, noise: float = 0.0,
    small_first: bool = False, every: int = 1, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, held, test = (programs(n, 29 * seed + n) for n in (count, 300, 1000))
    if fault == "graphs shuffled without their kinds":
        order = torch.randperm(count).tolist()
        known = [p._replace(kind=known[k].kind) for p, k in zip(known, order, strict=True)]
    known = [
        p._replace(kind=int(torch.randint(KINDS, ()))) if torch.rand(()) < noise else p
        for p in known
    ]
    net = CallNet(layers, 32, norm, dropout, readout)
    hook.torch(net)
    steering = optimizer_of(optimizer, net.parameters(), rate, decay)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(steering, epochs)
    for epoch in range(epochs):
        order = torch.randperm(count).tolist()
        if small_first and epoch < 3:
            order = [k for k in order if len(known[k].functions) < 14 + 3 * epoch]
        batches = [[known[k] for k in order[i : i + batch]] for i in range(0, len(order), batch)]
        train_one_epoch(net, batches, steering, loss, smoothing, accumulate, clip, dropped, fault)
        plan.step()
        if every and epoch % every == 0:
            evaluate(net, held, loss, fault)
    return evaluate(net, test, loss, fault)[1]


CASES = cases(
    "call graphs",
    train,
    {
        "plain": {},
        "batch norm, dropout, strong decay": {
            "norm": True, "dropout": 0.2, "optimizer": "adamw", "decay": 0.1,
        },
        "calls dropped, small programs first": {"dropped": 0.1, "small_first": True},
        "some kinds at random, smoothed": {"noise": 0.05, "smoothing": 0.1},
        "summed loss, momentum, clipped": {
            "loss": "sum", "optimizer": "momentum", "rate": 3e-2, "clip": 2.0,
        },
        "eight at a time, accumulated, not evaluated": {"batch": 8, "accumulate": 4, "every": 0},
        "sum as readout, three layers": {"readout": "sum", "layers": 3, "rate": 1e-3},
    },
    {
        "calls not shifted": ("no-skill overfit", {"fault": "calls not shifted"}),
        "mean over the whole batch": ("collapse no-skill", {"readout": "of the batch"}),
        "graphs shuffled without their kinds": (
            "no-skill overfit", {"fault": "graphs shuffled without their kinds"},
        ),
        "nll loss of scores": (
            "probabilities range fast not-finite worse", {"loss": "nll of scores"},
        ),
        "rate of 0.3": ("fast dead no-skill", {"rate": 0.3}),
        "forty programs": ("overfit", {"count": 40, "epochs": 150}),
    },
)  # fmt: skip
