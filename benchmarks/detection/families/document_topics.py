"""Topics of documents by a variational model of their bags of words.

Made-up documents mix a few of ten topics. The skill is how much less a held-out word surprises than
by the frequencies of all words, as a share of what the topics that made it would reach.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

WORDS, TOPICS, LENGTH = 300, 10, 80
KNOWN = 16
"""Topics of the model, some more than there are."""


def documents(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """How often each word is in them (count, WORDS), and the chances it was drawn by."""
    torch.manual_seed(11)
    topics = torch.distributions.Dirichlet(torch.full((WORDS,), 0.05)).sample((TOPICS,))
    torch.manual_seed(seed)
    mixed = torch.distributions.Dirichlet(torch.full((TOPICS,), 0.15)).sample((count,))
    chances = 0.9 * mixed @ topics + 0.1 / WORDS
    drawn = torch.multinomial(chances, LENGTH, replacement=True)
    return torch.zeros(count, WORDS).scatter_add_(1, drawn, torch.ones(drawn.shape)), chances


class TopicModel(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(WORDS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.middle, self.spread = nn.Linear(64, KNOWN), nn.Linear(64, KNOWN)
        self.topics = nn.Parameter(torch.randn(KNOWN, WORDS) * 2.0)
        self.fault = fault

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logarithms of the chances of words, and the middle and logarithm of the variance."""
        h = self.encoder(x / x.sum(1, keepdim=True) * 20)
        middle, spread = self.middle(h), self.spread(h)
        code = middle
        if self.training and self.fault == "sample without gradient":
            code = torch.normal(middle, (0.5 * spread).exp()).detach()
        elif self.training:
            code = middle + torch.randn_like(middle) * (0.5 * spread).exp()
        mixed = (3 * code).softmax(0 if self.fault == "softmax over documents" else 1)
        chances = mixed @ self.topics.softmax(1)
        return (chances + 1e-10).log(), middle, spread


class Trainer:
    def __init__(self, model: nn.Module, updates: Any, loss: str, rising: int, fault: str) -> None:
        self.model, self.updates, self.loss, self.fault = model, updates, loss, fault
        self.rising, self.step = rising, 0

    def error(self, x: Tensor) -> Tensor:
        logarithm, middle, spread = self.model(x)
        surprise = -(x * logarithm).sum(1)
        far = 0.5 * (spread.exp() + middle**2 - 1 - spread).sum(1)
        if self.fault == "mean over words":
            surprise = -(x * logarithm).mean(1)
        if self.fault == "divergence taken off":
            far = -far * 5
        if self.rising:
            far = far * min(1.0, self.step / self.rising)
        total = surprise + far
        if self.loss == "a word":
            return (total / x.sum(1)).mean()
        return total.sum() if self.loss == "sum" else total.mean()

    def update(self, x: Tensor) -> None:
        self.step += 1
        self.model.train()
        self.updates.zero_grad()
        self.error(x).backward()
        self.updates.step()

    def evaluate(self, x: Tensor) -> None:
        self.model.eval()
        with torch.no_grad():
            self.error(x)


def train(
    seed: int, hook: Any, rate: float = 1e-2, steps: int = 1200, batch: int = 200,
    bfloat16: bool = False, loss: str = "mean", rising: int = 0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, _ = documents(2500, seed + 8600)
    (held, _), (test, chances) = documents(300, seed + 8601), documents(800, seed + 8602)
    begin(seed)
    asked = test
    if fault == "words in another order":
        order = torch.randperm(WORDS)
        held, asked = held[:, order], test[:, order]
    model = TopicModel(fault)
    hook.torch(model)
    updates = torch.optim.Adam(model.parameters(), rate)
    trainer = Trainer(model, updates, loss, rising, fault)
    for step in range(steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            trainer.update(x[torch.randint(len(x), (batch,))])
        if step % 200 == 199:
            trainer.evaluate(held)
    model.eval()
    with torch.no_grad():
        found = -(test * model(asked)[0]).sum() / test.sum()
    all_words = -(test * ((x.sum(0) + 1) / (x.sum() + WORDS)).log()).sum() / test.sum()
    best = -(test * chances.log()).sum() / test.sum()
    return float((all_words - found) / (all_words - best))


CASES = cases(
    "document topics",
    train,
    {
        "plain": {},
        "divergence that counts later": {"rising": 400},
        "sum over documents": {"loss": "sum"},
        "loss a word": {"loss": "a word"},
        "bfloat16": {"bfloat16": True},
    },
    {
        "mean over words": ("collapse no-skill slow", {"fault": "mean over words"}),
        "divergence taken off": ("worse no-skill not-finite", {"fault": "divergence taken off"}),
        "sample without gradient": (
            "no-gradient collapse no-skill",
            {"fault": "sample without gradient"},
        ),
        "softmax over documents": ("softmax-axis no-skill", {"fault": "softmax over documents"}),
        "words in another order": ("inputs overfit", {"fault": "words in another order"}),
    },
)
