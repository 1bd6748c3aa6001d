"""A recurrent network reads symbols off a noisy signal without alignment, by CTC."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, optimizer_of, scheduler_of

SYMBOLS, FRAMES, SIZE, LENGTH = 5, 20, 6, 4


def signals(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Four symbols (from 1 on; 0 is the blank), each some frames long; no two alike in a row."""
    draw = torch.Generator().manual_seed(seed)
    sounds = torch.randn(SYMBOLS + 1, SIZE, generator=torch.Generator().manual_seed(9))
    text = torch.randint(1, SYMBOLS + 1, (count, LENGTH), generator=draw)
    for place in range(1, LENGTH):
        same = text[:, place] == text[:, place - 1]
        text[:, place] = torch.where(same, text[:, place] % SYMBOLS + 1, text[:, place])
    ends = torch.randint(4, 6, (count, LENGTH), generator=draw).cumsum(1)
    frame = torch.arange(FRAMES)
    at = (frame[None, :, None] >= ends[:, None, :]).sum(2).clamp(max=LENGTH - 1)
    heard = text.gather(1, at)
    return sounds[heard] + 0.7 * torch.randn(count, FRAMES, SIZE, generator=draw), text


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.GRU(SIZE, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, SYMBOLS + 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0]).log_softmax(-1)


def read(chances: Tensor) -> list[list[int]]:
    best = chances.argmax(-1).tolist()
    return [[s for n, s in enumerate(row) if s and (n == 0 or s != row[n - 1])] for row in best]


def train(
    seed: int, hook: Any, rate: float = 5e-3, steps: int = 500, batch: int = 16,
    schedule: str = "constant", clip: float = 5.0, fault: str = "", only: str = "",
    noise: float = 0.0, scale: float = 1.0, accumulate: int = 1,
) -> float:  # fmt: skip
    begin(seed)
    (x, text), (held, held_text) = signals(2000, seed + 200), signals(200, seed + 201)
    if fault == "memorises":
        x, text = x[:20], text[:20]
    model = Reader()
    if fault == "blank for ever":
        nn.init.constant_(model.head.bias[:1], 40.0)
    chosen = [p for name, p in model.named_parameters() if only in name]
    optimizer = optimizer_of("adam", chosen, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    criterion = nn.CTCLoss(zero_infinity=fault == "too long")
    hook.torch(model)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(len(x), (batch,))
            said = text[rows]
            if fault == "texts of others":
                said = said[torch.randperm(batch)]
            if fault == "one text":
                said = said[:1].expand(batch, -1) * 0 + torch.tensor([1, 2, 1, 2])
            if noise:
                wrong = torch.rand(batch) < noise
                said = torch.where(wrong[:, None], said[torch.randperm(batch)], said)
            if fault == "too long":
                said = said.repeat(1, 6)
            chances = model(x[rows])
            if fault == "softmax twice":
                chances = chances.exp()
            frames = torch.full((batch,), FRAMES)
            lengths = torch.full((batch,), said.shape[1])
            (criterion(chances.transpose(0, 1), said, frames, lengths) / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                heard = model(held * scale).transpose(0, 1)
                frames, lengths = torch.full((200,), FRAMES), torch.full((200,), LENGTH)
                criterion(heard, held_text, frames, lengths)
            model.train()
    model.eval()
    with torch.no_grad():
        found = read(model(held * scale))
    return sum(a == b for a, b in zip(found, held_text.tolist(), strict=True)) / len(found)


CASES = cases(
    "speech",
    train,
    {
        "plain": {},
        "one cycle": {"schedule": "one cycle", "rate": 1e-2},
        "texts with noise": {"noise": 0.1, "steps": 700},
        "accumulation": {"batch": 4, "accumulate": 4},
        "batch of four": {"batch": 4, "steps": 1500, "rate": 3e-3},
    },
    {
        "texts of others": ("no-skill", {"fault": "texts of others"}),
        "one text": ("collapse leak no-skill overfit", {"fault": "one text"}),
        "texts longer than signals": ("no-gradient no-skill range", {"fault": "too long"}),
        "blank for ever": (
            "collapse no-skill saturated",
            {"fault": "blank for ever", "rate": 1e-4},
        ),
        "probabilities": ("probabilities no-skill", {"fault": "softmax twice"}),
        "memorises 20": ("overfit", {"fault": "memorises"}),
        "body in no optimizer": ("unbound", {"only": "head"}),
        "evaluation x 255": ("inputs", {"scale": 255.0}),
        "rate x 1000": ("fast no-skill", {"rate": 5.0, "clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
    },
)
