"""Binary codes of pictures for search: pairs of like and unlike pictures, signs at the end.

Pictures are given by 64 features of a network that is not trained here, with six motifs that vary
in themselves. Codes of 24 bits are to be near for pictures of one motif. The sign is trained with
a straight-through estimator, or as a tanh that sharpens. The skill is the mean average precision
of a search by Hamming distance above that of a random order.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.case import cases

FEATURES, KINDS, BITS = 64, 6, 24


class Sign(torch.autograd.Function):
    """The sign; its gradient is that of the identity where the input is small."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradients[0] * (x.abs() <= 1).float()


class Coder(nn.Module):
    def __init__(self, binary: str, norm: bool) -> None:
        super().__init__()
        self.binary, self.sharpness = binary, 1.0
        self.body = nn.Sequential(nn.Linear(FEATURES, 96), nn.ReLU(), nn.Linear(96, BITS))
        self.norm = nn.BatchNorm1d(BITS) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.norm(self.body(x))
        if self.binary == "sign":
            return torch.sign(logits)
        if self.binary == "straight through":
            code: Tensor = Sign.apply(logits)
            return code
        return torch.tanh(self.sharpness * logits)


def features(count: int, seed: int) -> tuple[Tensor, Tensor]:
    world = torch.Generator().manual_seed(912)
    motifs = torch.randn(KINDS, 4, 12, generator=world)  # each motif has four looks
    mixing = torch.randn(12, FEATURES, generator=world) / 3
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    look = torch.randint(4, (count,), generator=draw)
    hidden = motifs[kind, look] + 0.5 * torch.randn(count, 12, generator=draw)
    x = torch.relu(hidden @ mixing) + 0.1 * torch.randn(count, FEATURES, generator=draw).abs()
    return x, kind


def pair_loss(first: Tensor, second: Tensor, like: Tensor, kind: str, fault: str) -> Tensor:
    if fault == "like and unlike the wrong way":  # in some collections 0 means a like pair
        like = 1 - like
    inner = (first * second).sum(1)
    if kind == "likelihood":
        return functional.binary_cross_entropy_with_logits(inner / 4, like)
    return (inner / BITS - (2 * like - 1)).square().mean()


def precision(codes: Tensor, kinds: Tensor, queries: int = 150) -> float:
    """The mean average precision of the first codes as queries, above the share of the like."""
    near = codes[:queries] @ codes[queries:].T + 1e-3 * torch.rand(queries, len(codes) - queries)
    order = near.argsort(dim=1, descending=True)
    right = (kinds[queries:][order] == kinds[:queries, None]).double()
    ranks = torch.arange(1, right.shape[1] + 1)
    found = ((right.cumsum(1) / ranks * right).sum(1) / right.sum(1)).mean().item()
    chance = right.mean().item()
    return float((found - chance) / (1 - chance))


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 1e-3, batch: int = 48,
    optimizer: str = "adam", binary: str = "straight through", norm: bool = False,
    loss: str = "likelihood", like_share: float = 0.5, quantised: float = 0.0, balance: float = 0.0,
    count: int = 3000, evaluate_every: int = 250, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, kinds = features(count, seed + 9120)
    held_x, held_kinds = features(400, seed + 9121)
    test_x, test_kinds = features(1000, seed + 9122)
    if fault == "features of another network":  # those of the base are newer
        turn = torch.linalg.qr(torch.randn(FEATURES, FEATURES))[0]
        held_x, test_x = held_x @ turn, test_x @ turn
    model = Coder(binary, norm)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate)
    of_kind = [torch.nonzero(kinds == kind)[:, 0] for kind in range(KINDS)]
    for step in range(steps):
        model.sharpness = 1.0 + 9.0 * step / steps
        first = torch.randint(count, (batch,))
        second = torch.randint(count, (batch,))
        for place in torch.nonzero(torch.rand(batch) < like_share)[:, 0].tolist():
            same = of_kind[int(kinds[first[place]])]
            second[place] = same[torch.randint(len(same), (1,))]
        like = (kinds[first] == kinds[second]).float()
        codes = model(torch.cat([x[first], x[second]]))
        error = pair_loss(codes[:batch], codes[batch:], like, loss, fault)
        error = error + quantised * (codes.abs() - 1).square().mean()
        error = error + balance * codes.mean(0).square().mean()
        updates.zero_grad()
        error.backward()
        updates.step()
        if evaluate_every and step % evaluate_every == evaluate_every - 1:
            model.eval()
            with torch.no_grad():
                precision(torch.sign(model(held_x)), held_kinds, 50)
            model.train()
    model.eval()
    with torch.no_grad():
        codes = model(test_x)
    return precision(torch.where(codes >= 0, 1.0, -1.0), test_kinds)


CASES = cases(
    "search codes",
    train,
    {
        "plain": {},
        "tanh that sharpens": {"binary": "tanh"},
        "inner products of tanh": {"loss": "inner product", "binary": "tanh", "quantised": 0.1},
        "inner products, few pairs alike": {"loss": "inner product", "like_share": 0.25},
        "balanced bits, norm of batches": {"balance": 1.0, "norm": True},
        "momentum, near one in size": {
            "binary": "tanh", "quantised": 0.1, "optimizer": "momentum", "rate": 3e-3,
        },
        "large batches, not evaluated": {"batch": 160, "steps": 800, "evaluate_every": 0},
    },
    {
        "sign without an estimator": ("no-gradient no-skill", {"binary": "sign"}),
        "like and unlike the wrong way": (
            "worse no-skill collapse", {"fault": "like and unlike the wrong way"},
        ),
        "only like pairs": ("collapse no-skill", {"like_share": 1.0}),
        "features of another network": ("inputs overfit", {"fault": "features of another network"}),
        "few pictures": ("overfit", {"count": 24}),
        "momentum at a rate of 10": ("fast dead no-skill", {"optimizer": "momentum", "rate": 10.0}),
    },
)  # fmt: skip
