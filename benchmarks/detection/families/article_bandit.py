"""Which article to show a reader: a contextual bandit that learns from clicks as they come.

Each step shows an article to some readers, by an epsilon-greedy choice, puts what was clicked into
a memory, and fits the expected clicks of the articles shown. The skill is the chance of a click of
the articles chosen for other readers, between that of any article and that of the best one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, normal
from torch import Tensor, nn

from benchmarks.detection.case import cases

READER, ARTICLES = 10, 8


class World:
    """Readers come in, and click or do not."""

    def __init__(self, seed: int, sharpness: float) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.taste = normal(READER, ARTICLES, seed=601)
        self.crossed = normal(READER, ARTICLES, seed=602)
        self.sharpness = sharpness

    def readers(self, count: int) -> Tensor:
        return torch.randn(count, READER, generator=self.draw)

    def chances(self, reader: Tensor) -> Tensor:
        """(N, ARTICLES) chances of a click."""
        liked = reader @ self.taste + (reader.abs() - 0.8) @ self.crossed
        return torch.sigmoid(self.sharpness * liked / 3.2 - 1)

    def clicks(self, reader: Tensor, shown: Tensor) -> Tensor:
        chance = self.chances(reader).gather(1, shown[:, None]).squeeze(1)
        return (torch.rand(len(chance), generator=self.draw) < chance).float()


class Memory:
    """The last impressions, in a ring."""

    def __init__(self, size: int) -> None:
        self.reader, self.shown = torch.zeros(size, READER), torch.zeros(size, dtype=torch.long)
        self.clicked, self.size, self.seen = torch.zeros(size), size, 0

    def add(self, reader: Tensor, shown: Tensor, clicked: Tensor) -> None:
        at = torch.arange(self.seen, self.seen + len(shown)) % self.size
        self.reader[at], self.shown[at], self.clicked[at] = reader, shown, clicked
        self.seen += len(shown)

    def sample(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.randint(min(self.seen, self.size), (count,))
        return self.reader[rows], self.shown[rows], self.clicked[rows]


def choose(net: nn.Module, reader: Tensor, epsilon: float, kind: str) -> Tensor:
    """The article with the best score, or sometimes any; or by chance in proportion."""
    net.eval()
    with torch.no_grad():
        scores = net(reader)
    net.train()
    if not bool(scores.isfinite().all()):
        return torch.randint(ARTICLES, (len(reader),))
    if kind == "in proportion":
        return torch.multinomial((8 * scores.sigmoid()).softmax(1), 1).squeeze(1)
    any_one = torch.randint(ARTICLES, (len(reader),))
    return torch.where(torch.rand(len(reader)) < epsilon, any_one, scores.argmax(1))


def loss_of(kind: str, scores: Tensor, shown: Tensor, clicked: Tensor, times: float) -> Tensor:
    score = scores.gather(1, shown[:, None])
    if kind == "column against row":
        return F.mse_loss(score.sigmoid(), clicked)
    if kind == "squared":
        return times * F.mse_loss(score.squeeze(1), clicked)
    if kind == "articles not shown count as not clicked":
        wanted = torch.zeros_like(scores).scatter(1, shown[:, None], clicked[:, None])
        return F.binary_cross_entropy_with_logits(scores, wanted)
    if kind == "article shown as class":
        return F.cross_entropy(scores, shown)
    if kind == "sigmoid twice":
        score = score.sigmoid()
    return times * F.binary_cross_entropy_with_logits(score.squeeze(1), clicked)


def train(
    seed: int, hook: Any, loss: str = "", steps: int = 2500, rate: float = 2e-3, batch: int = 64,
    epsilon: tuple[float, float] = (0.5, 0.1), choice: str = "", memory: int = 20000,
    arrive: int = 8, decay: float = 1e-4, dropout: float = 0.0, times: float = 1.0,
    sharpness: float = 3.0, width: int = 48, new_taste: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    world, seen = World(seed + 800, sharpness), Memory(memory)
    net = dense([READER, width, width, ARTICLES])
    if dropout:
        net.insert(2, nn.Dropout(dropout))
    hook.torch(net)
    steering = torch.optim.AdamW(net.parameters(), rate, weight_decay=decay)
    if new_taste:  # at first readers of other tastes come
        world.taste = normal(READER, ARTICLES, seed=603)
    earned = 0.0
    for step in range(steps):
        if new_taste and step == steps // 4:
            world.taste = normal(READER, ARTICLES, seed=601)
        reader = world.readers(arrive)
        now = epsilon[0] + (epsilon[1] - epsilon[0]) * min(1.0, 2 * step / steps)
        shown = choose(net, reader, now, choice)
        clicked = world.clicks(reader, shown)
        earned = 0.99 * earned + 0.01 * clicked.mean().item()
        if fault == "clicks come late":  # those of the readers before are kept with these
            clicked = world.clicks(world.readers(arrive), shown)
        if fault == "article numbered from one":
            shown = (shown + 1) % ARTICLES
        if fault == "sign of the reward":
            clicked = 1 - clicked
        seen.add(reader, shown, clicked)
        reader, shown, clicked = seen.sample(batch)
        scores = net(reader.zero_() if fault == "reader overwritten" else reader)
        error = loss_of(loss, scores, shown, clicked, times)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        steering.step()
    reader = world.readers(2000)
    chances = world.chances(reader)
    net.eval()
    with torch.no_grad():
        scores = net(reader)
    if not bool(scores.isfinite().all()):
        return math.nan
    reached = chances.gather(1, scores.argmax(1, keepdim=True)).mean().item()
    least, most = chances.mean().item(), chances.max(1).values.mean().item()
    skill: float = (reached - least) / (most - least)
    return skill


CASES = cases(
    "article bandit",
    train,
    {
        "plain": {},
        "squared error": {"loss": "squared"},
        "chosen in proportion": {"choice": "in proportion"},
        "always at random": {"epsilon": (1.0, 1.0)},
        "the latest 2000 alone": {"memory": 2000, "rate": 1e-3, "arrive": 16},
        "readers change": {"new_taste": True, "memory": 5000, "steps": 3000},
        "loss x 10000": {"times": 1e4},
    },
    {
        "sign of the reward": ("worse range", {"fault": "sign of the reward"}),
        "clicks of other readers": ("no-skill", {"fault": "clicks come late"}),
        "article numbered from one": ("no-skill worse", {"fault": "article numbered from one"}),
        "article shown as class": ("leak collapse", {"loss": "article shown as class"}),
        "column against row": ("broadcast no-skill", {"loss": "column against row"}),
        "reader overwritten": ("inputs no-gradient", {"fault": "reader overwritten"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
    },
)
