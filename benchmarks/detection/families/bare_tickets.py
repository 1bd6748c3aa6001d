"""Which desk a customer's message goes to, by averaged embeddings; saved as values, without a hook.

Made-up messages lie one after another in one tensor, with offsets of where each begins. Each of
eight desks has words of its own. The skill is accuracy above the most frequent.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    optimizer_of,
    save_values,
    scheduler_of,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

DESKS, EACH, COMMON = 8, 30, 160
WORDS = DESKS * EACH + COMMON
Message = tuple[Tensor, int]


def messages(count: int, seed: int) -> list[Message]:
    draw = torch.Generator().manual_seed(seed)
    desks = torch.randint(DESKS, (count,), generator=draw).tolist()
    sizes = torch.randint(6, 25, (count,), generator=draw).tolist()
    made = list[Message]()
    for desk, size in zip(desks, sizes, strict=True):
        own = EACH * desk + torch.randint(EACH, (size,), generator=draw)
        other = torch.randint(WORDS, (size,), generator=draw)
        made.append((torch.where(torch.rand(size, generator=draw) < 0.3, own, other), desk))
    return made


def collate(batch: list[Message], fault: str = "") -> tuple[Tensor, Tensor, Tensor]:
    """Words one after another, where each message begins, and desks."""
    sizes = torch.tensor([len(words) for words, _ in batch])
    begins = sizes.cumsum(0) - sizes
    if fault == "lengths for offsets":  # without cumsum, as [0, 12, 7, …]
        begins = torch.cat([torch.zeros(1, dtype=torch.long), sizes[:-1]])
    return torch.cat([words for words, _ in batch]), begins, torch.tensor([d for _, d in batch])


class Desk(nn.Module):
    def __init__(self, mode: str, hidden: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, 32, mode=mode)
        self.rest = nn.Linear(32, DESKS)
        if hidden:
            self.rest = nn.Sequential(nn.Linear(32, hidden), nn.ReLU(), nn.Linear(hidden, DESKS))
        nn.init.uniform_(self.bag.weight, -0.5, 0.5)

    def forward(self, words: Tensor, begins: Tensor) -> Tensor:
        h: Tensor = self.rest(self.bag(words, begins))
        return h


def train(
    seed: int, hook: Any, rate: float = 1e-2, steps: int = 600, batch: int = 32,
    optimizer: str = "adam", schedule: str = "constant", mode: str = "mean", hidden: int = 0,
    clip: float = 0.0, smoothing: float = 0.0, times: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    rows, held, test = (messages(n, seed + 9200 + n) for n in (4000, 300, 1000))
    if fault == "words numbered again":
        again = torch.randperm(WORDS)
        held, test = ([(again[words], desk) for words, desk in part] for part in (held, test))
    if fault == "desk after desk":
        rows = sorted(rows, key=lambda row: row[1])
    model = Desk(mode, hidden)
    updates = optimizer_of(optimizer, model.parameters(), rate)
    falls = scheduler_of(updates, schedule, steps)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))

    def loss_of(part: list[Message]) -> Tensor:
        words, begins, desks = collate(part, fault)
        return F.cross_entropy(model(words, begins), desks, label_smoothing=smoothing) * times

    order = list[int]()
    for step in range(steps):
        if len(order) < batch:
            shuffled = torch.randperm(len(rows)).tolist()
            order = list(range(len(rows))) if fault == "desk after desk" else shuffled
        part, order = [rows[at] for at in order[:batch]], order[batch:]
        loss = loss_of(part)
        if fault != "gradients kept":
            updates.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        falls.step()
        save_values(recorded, model, loss, biases="weights")
        if step % 100 == 99:
            with torch.no_grad(), recorded.step(modes.EVAL):
                recorded.save("loss", loss_of(held).item(), "losses", raw=True)
    recorded.close()
    words, begins, desks = collate(test)
    with torch.no_grad():
        return class_skill(model(words, begins), desks)


CASES = cases(
    "bare tickets",
    train,
    {
        "plain": {},
        "descent with a high rate": {"optimizer": "sgd", "rate": 5.0, "steps": 900},
        "sums of embeddings": {"mode": "sum", "rate": 5e-3},
        "a layer more, one cycle": {"hidden": 32, "schedule": "one cycle"},
        "label smoothing": {"smoothing": 0.2},
        "loss x 10000, clipped": {"times": 1e4, "clip": 1.0},
    },
    {
        "lengths for offsets": ("inputs no-skill", {"fault": "lengths for offsets"}),
        "words numbered again": ("inputs overfit", {"fault": "words numbered again"}),
        "desk after desk": (
            "order",
            {"fault": "desk after desk", "optimizer": "sgd", "rate": 5.0, "steps": 500},
        ),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "sgd", "rate": 5.0},
        ),
        "rate of the tutorial for sums": (
            "slow no-skill",
            {"optimizer": "sgd", "rate": 0.01},
        ),
    },
)
