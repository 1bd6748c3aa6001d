"""Which offer to show to whom, learned from logged decisions by inverse propensity.

A shop showed one of six offers at random, more often those that it liked for a customer, and noted
the chance of each and the profit. The skill is the profit of the policy's best offers, from 0 for
the one offer that is best for all, to 1 for the best for each.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense
from torch import Tensor, nn

from benchmarks.detection.case import cases

OFFERS, COLUMNS = 6, 8
Log = dict[str, Tensor]


def profits(x: Tensor) -> Tensor:
    """The chance (N, OFFERS) that a customer takes it."""
    draw = torch.Generator().manual_seed(12)
    taste = torch.randn(COLUMNS, OFFERS, generator=draw)
    bent = torch.randn(COLUMNS, OFFERS, generator=draw)
    return ((x @ taste + (x.abs() - 0.8) @ bent) * 0.7 - 0.5).sigmoid()


def decisions(count: int, seed: int) -> Log:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, COLUMNS, generator=draw)
    liked = torch.randn(COLUMNS, OFFERS, generator=torch.Generator().manual_seed(13))
    liking = 0.5 * x @ liked + torch.tensor([1.5, 0.7, 0.3, 0.0, -0.3, -0.6])
    policy = 0.9 * liking.softmax(1) + 0.1 / OFFERS
    shown = torch.multinomial(policy, 1, generator=draw)[:, 0]
    chance = policy.gather(1, shown[:, None])[:, 0]
    taken = torch.rand(count, generator=draw) < profits(x).gather(1, shown[:, None])[:, 0]
    return {"x": x, "shown": shown, "chance": chance, "profit": taken.float()}


class Learner:
    """Learns a policy from a log: ``how`` the value of the policy is estimated."""

    def __init__(
        self, model: nn.Module, how: str, clip: float, baseline: float, entropy: float,
        fault: str,
    ) -> None:  # fmt: skip
        self.model, self.how, self.clip, self.fault = model, how, clip, fault
        self.baseline, self.entropy = baseline, entropy

    def loss(self, log: Log) -> Tensor:
        scores = self.model(log["x"])
        shown, chance, profit = log["shown"], log["chance"], log["profit"]
        if self.how == "direct":
            return F.binary_cross_entropy_with_logits(
                scores.gather(1, shown[:, None])[:, 0], profit
            )
        policy = scores.softmax(0 if self.fault == "softmax over customers" else 1)
        if self.fault == "offers drawn again":
            shown = torch.multinomial(policy.detach(), 1)[:, 0]
        mine = policy.gather(1, shown[:, None])
        if self.fault != "chances against a column":
            mine = mine[:, 0]
        weight = mine / chance
        if self.clip:
            weight = weight.clamp(max=self.clip)
        if self.fault == "loss without a minus":
            profit = -profit
        value = (weight * (profit - self.baseline)).mean()
        if self.how == "self-normalised":
            value = (weight * profit).sum() / weight.sum()
        spread = -(policy * policy.clamp(min=1e-6).log()).sum(1).mean()
        return -value - self.entropy * spread


def gain(model: nn.Module, x: Tensor) -> float:
    """What the policy's best offers bring, between the best for all and the best for each."""
    model.eval()
    with torch.no_grad():
        scores, found = model(x), profits(x)
    model.train()
    if not bool(torch.isfinite(scores).all()):
        return float("nan")
    mine = found.gather(1, scores.argmax(1, keepdim=True)).mean()
    for_all, for_each = found.mean(0).max(), found.max(1).values.mean()
    return float((mine - for_all) / (for_each - for_all))


def train(
    seed: int, hook: Any, steps: int = 1200, batch: int = 128, rate: float = 3e-3, how: str = "",
    clip: float = 0.0, baseline: float = 0.0, entropy: float = 0.0,
    times: float = 1.0, count: int = 12000, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    log, held = decisions(count, seed + 8600), decisions(1000, seed + 8601)
    if fault == "profits of another table":
        log["profit"] = log["profit"][torch.randperm(count)]
    model = dense((COLUMNS, 48, 48, OFFERS))
    hook.torch(model)
    learner = Learner(model, how, clip, baseline, entropy, fault)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for step in range(steps):
        rows = torch.randint(count, (batch,))
        optimizer.zero_grad()
        loss = learner.loss({name: of[rows] for name, of in log.items()}) * times
        loss.backward()
        optimizer.step()
        if step % 200 == 199:
            model.eval()
            with torch.no_grad():
                learner.loss(held)
            model.train()
    test = decisions(4000, seed + 8602)["x"]
    return gain(model, test)


CASES = cases(
    "logged offers",
    train,
    {
        "plain": {},
        "self-normalised": {"how": "self-normalised"},
        "weights clipped, loss x 10000": {"clip": 12.0, "times": 1e4},
        "a baseline": {"baseline": 0.4},
        "rewarded for variety": {"entropy": 0.01},
        "direct": {"how": "direct"},
    },
    {
        "chances against a column": ("broadcast no-skill", {"fault": "chances against a column"}),
        "loss without a minus": ("worse no-skill", {"fault": "loss without a minus"}),
        "softmax over customers": ("softmax-axis no-skill", {"fault": "softmax over customers"}),
        "offers drawn again": ("ignored no-skill collapse", {"fault": "offers drawn again"}),
        "profits of another table": ("no-skill overfit", {"fault": "profits of another table"}),
    },
)
