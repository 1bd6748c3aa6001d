"""What a customer buys next, and when: a transformer over purchases with their times and amounts.

Each place predicts the next kind of goods, by cross-entropy, and the days until then, by a
likelihood of their logarithm. The skill is the mean of both, above that without inputs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, explained, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

KINDS, LENGTH, WIDTH = 12, 12, 32


def purchases(count: int, seed: int, same_day: bool) -> list[Tensor]:
    """Kinds, days since the purchase before, and amounts (N, LENGTH + 1)."""
    fixed, draw = torch.Generator().manual_seed(101), torch.Generator().manual_seed(seed)
    follows = torch.stack([torch.randperm(KINDS, generator=fixed) for _ in range(2)])
    waits, price = torch.randn(KINDS, generator=fixed), 3 + torch.randn(KINDS, generator=fixed)
    pace = torch.randn(count, generator=draw)
    before, kind = torch.randint(KINDS, (2, count), generator=draw)
    rows, amount = [], (price[kind] + 0.4 * torch.randn(count, generator=draw)).exp()
    for _ in range(LENGTH + 1):
        dear = amount.log() - price[kind]
        days = (1.5 + 0.6 * pace + 0.5 * waits[kind] + 0.8 * dear).exp()
        days = days * (0.25 * torch.randn(count, generator=draw)).exp()
        wanted = follows[(before % 2), kind]
        other = torch.randint(KINDS, (count,), generator=draw)
        before, kind = kind, torch.where(torch.rand(count, generator=draw) < 0.85, wanted, other)
        amount = (price[kind] + 0.4 * torch.randn(count, generator=draw)).exp()
        rows.append((kind, days.floor() if same_day else days.clamp(min=0.05), amount))
    return [torch.stack(part, 1) for part in zip(*rows, strict=True)]


class Buyer(nn.Module):
    def __init__(self, recurrent: bool) -> None:
        super().__init__()
        self.kinds, self.places = nn.Embedding(KINDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.numbers = nn.Linear(2, WIDTH)
        self.body: Any = nn.GRU(WIDTH, WIDTH, batch_first=True)
        if not recurrent:
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.next, self.time = nn.Linear(WIDTH, KINDS), nn.Linear(WIDTH, 2)

    def forward(self, kind: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.kinds(kind) + self.numbers(numbers) + self.places.weight
        if isinstance(self.body, nn.GRU):
            h, _ = self.body(x)
        else:
            h = self.body(x, mask=nn.Transformer.generate_square_subsequent_mask(LENGTH))
        middle, spread = self.time(h).unbind(-1)
        return self.next(h), middle, spread.clamp(-4, 4)


def train(
    seed: int, hook: Any, newest_first: bool = False, recurrent: bool = False,
    times: str = "normal", part: float = 1.0, next_gap: bool = False, rate: float = 3e-3,
    schedule: str = "constant", smoothing: float = 0.0, batch: int = 32, epochs: int = 8,
    same_day: bool = False, optimizer: str = "Adam",
) -> float:  # fmt: skip
    begin(seed)

    def table(count: int, begun: int, used: bool = False) -> list[Tensor]:
        kinds, days, amounts = purchases(count, begun, same_day)
        if newest_first and not used:  # as the shop's export has them
            kinds, days, amounts = kinds.flip(1), days.flip(1), amounts.flip(1)
        wanted = days * 86400 if times == "seconds" else days.log()
        numbers = torch.stack([wanted, amounts.log()], 2)
        numbers = (numbers - numbers.mean((0, 1))) / numbers.std((0, 1))
        if next_gap:
            numbers[:, :-1, 0] = numbers[:, 1:, 0].clone()
        return [kinds[:, :-1], numbers[:, :-1], kinds[:, 1:], wanted[:, 1:]]

    rows, held = table(1300, seed + 10200), table(300, seed + 10201)
    test = table(800, seed + 10202, True)
    model = Buyer(recurrent)
    hook.torch(model)
    updates = getattr(torch.optim, optimizer)(model.parameters(), lr=rate)
    loader = DataLoader(TensorDataset(*rows), batch, shuffle=True)
    scheduler = scheduler_of(updates, schedule, epochs * len(loader))

    def losses(kind: Tensor, numbers: Tensor, then: Tensor, wait: Tensor) -> Tensor:
        scores, middle, spread = model(kind, numbers)
        first = F.cross_entropy(scores.flatten(0, 1), then.flatten(), label_smoothing=smoothing)
        if times == "normal":
            return first + part * (0.5 * ((wait - middle) / spread.exp()) ** 2 + spread).mean()
        return first + part * F.mse_loss(middle, wait)

    for _ in range(epochs):
        model.train()
        for sample in loader:
            loss = losses(*sample)
            updates.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            updates.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            losses(*held)
    model.eval()
    kind, numbers, then, wait = test
    if next_gap:  # which nobody knows of the last purchase
        numbers[:, -1, 0] = 0.0
    with torch.no_grad():
        scores, middle, _ = model(kind, numbers)
    if not bool(torch.isfinite(scores).all() and torch.isfinite(middle).all()):
        return math.nan
    found, waited = middle[:, -1], wait[:, -1]
    if times == "seconds":
        found, waited = found.clamp(min=60).log(), waited.log()
    return (class_skill(scores[:, -1], then[:, -1]) + max(-1.0, explained(found, waited))) / 2


CASES = cases(
    "next purchase",
    train,
    {
        "plain": {},
        "squares of logarithms": {"times": "squares"},
        "times count little": {"part": 0.1, "smoothing": 0.1},
        "recurrent instead": {"recurrent": True, "rate": 1e-2, "epochs": 10},
        "one cycle, AdamW": {"schedule": "one cycle", "optimizer": "AdamW", "rate": 6e-3},
        "batch of eight": {"batch": 8, "epochs": 4, "rate": 1e-3},
    },
    {
        "gap to the next purchase": ("leak", {"next_gap": True}),
        "rate x 30": ("fast no-skill collapse dead", {"rate": 0.1}),
        "squares of seconds": ("ignored range fast no-skill", {"times": "seconds"}),
        "newest first": ("order inputs", {"newest_first": True}),
        "bought on the same day": ("not-finite", {"same_day": True}),
    },
)  # fmt: skip
