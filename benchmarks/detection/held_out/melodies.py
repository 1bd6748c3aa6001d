"""The next note of melodies: an LSTM whose state goes on from batch to batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin

NOTES, STREAMS, SPAN = 12, 16, 20


def melody(length: int, seed: int) -> Tensor:
    """(STREAMS, length): a scale with a mode that changes seldom, and ornaments."""
    draw = torch.Generator().manual_seed(seed)
    mode = (torch.rand(STREAMS, length, generator=draw) < 0.02).cumsum(1) % 3
    step = torch.tensor([1, 2, 5])[mode]
    note = (step.cumsum(1) + torch.randint(NOTES, (STREAMS, 1), generator=draw)) % NOTES
    ornament = torch.rand(STREAMS, length, generator=draw) < 0.05
    return torch.where(ornament, torch.randint(NOTES, note.shape, generator=draw), note)


class Player(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(NOTES, 16), nn.LSTM(16, 48, batch_first=True)
        self.head = nn.Linear(48, NOTES)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        found, state = self.cell(self.embed(x), state)
        return self.head(found), state


def train(seed: int, hook: Any, rate: float = 8e-3, steps: int = 500, clip: float = 1.0,
          smoothing: float = 0.0, optimizer: str = "Adam", fault: str = "") -> float:  # fmt: skip
    begin(seed)
    tune, held = melody(SPAN * steps // 2 + 1, seed + 4600), melody(401, seed + 4601)
    model = Player()
    hook.torch(model)
    used = getattr(torch.optim, optimizer)(model.parameters(), rate)
    planned = 1e6 if fault == "warm-up of a million" else 1
    warm_up = torch.optim.lr_scheduler.LambdaLR(used, lambda step: min(1.0, (step + 1) / planned))
    state = None
    for step in range(steps):
        at = step * SPAN % (tune.shape[1] - SPAN - 1)
        x, y = tune[:, at : at + SPAN], tune[:, at + 1 : at + SPAN + 1]
        if fault == "labels are the inputs":
            y = x
        if fault == "streams of labels mixed":
            y = y[torch.randperm(STREAMS)]
        scores, state = model(x, state)
        state = tuple(part.detach() for part in state)
        if fault == "softmax over time":
            loss = nn.functional.nll_loss(scores.log_softmax(1).flatten(0, 1), y.flatten())
        else:
            loss = nn.functional.cross_entropy(
                scores.flatten(0, 1), y.flatten(), label_smoothing=smoothing
            )
        if fault != "gradients add up":
            used.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        used.step()
        warm_up.step()
    model.eval()
    with torch.no_grad():
        scores, _ = model(held[:, :-1])
    return ((scores.argmax(2) == held[:, 1:]).double().mean().item() - 1 / NOTES) / (1 - 1 / NOTES)


CASES = cases(
    "melodies",
    train,
    {
        "plain": {},
        "smoothed": {"smoothing": 0.1},
        "rmsprop": {"optimizer": "RMSprop", "rate": 3e-3},
        "twice as long": {"steps": 1000, "rate": 4e-3},
    },
    {
        "labels are the inputs": ("leak", {"fault": "labels are the inputs"}),
        "streams of labels mixed": ("no-skill", {"fault": "streams of labels mixed"}),
        "softmax over time": ("softmax-axis no-skill", {"fault": "softmax over time"}),
        "gradients add up": (
            "kept-gradients fast worse",
            {"fault": "gradients add up", "optimizer": "SGD", "rate": 0.5, "clip": 0.0},
        ),
        "warm-up of a million": ("schedule slow no-skill", {"fault": "warm-up of a million"}),
        "rate of 1": ("fast worse no-skill saturated", {"rate": 1.0, "clip": 0.0}),
    },
)  # fmt: skip
