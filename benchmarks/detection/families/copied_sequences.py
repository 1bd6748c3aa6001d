"""An LSTM with attention copies a sequence or reverses it, with lessons of growing length.

The first sign says which of the two is wanted; 3 to 8 signs of twelve follow, the decoder reads the
true signs before (teacher forcing), and lengths grow over the training. The skill is the accuracy
of signs at the full lengths, when the decoder reads its own output, above that of a guess.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.case import cases

SIGNS, LONGEST = 12, 8
PAD, COPY, REVERSE, START = SIGNS, SIGNS + 1, SIGNS + 2, SIGNS + 3
WORDS = SIGNS + 4


class Sequences:
    """Draws batches, shorter ones first."""

    def __init__(self, seed: int, pool: int = 0, fault: str = "") -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.fault = fault
        self.pool = self.sample(pool, LONGEST) if pool else None

    def sample(self, count: int, longest: int) -> dict[str, Tensor]:
        signs = torch.randint(SIGNS, (count, LONGEST), generator=self.draw)
        lengths = torch.randint(3, longest + 1, (count, 1), generator=self.draw)
        reverse = torch.rand(count, 1, generator=self.draw) < 0.5
        place = torch.arange(LONGEST)
        there = place < lengths
        back = (lengths - 1 - place).clamp(min=0)
        wanted = torch.where(reverse, signs.gather(1, back), signs)
        task = torch.where(reverse, REVERSE, COPY)
        source = torch.cat([task, signs.masked_fill(~there, PAD)], 1)
        return {"source": source, "target": wanted.masked_fill(~there, PAD)}

    def batch(self, count: int, longest: int) -> dict[str, Tensor]:
        if self.pool is None:
            return self.sample(count, longest)
        rows = torch.randint(len(self.pool["source"]), (count,), generator=self.draw)
        return {name: values[rows] for name, values in self.pool.items()}


class Translator(nn.Module):
    def __init__(self, units: int = 48, bidirectional: bool = True, dropout: float = 0.0,
                 attends: str = "signs") -> None:  # fmt: skip
        super().__init__()
        self.attends = attends
        self.embed = nn.Embedding(WORDS, 24, padding_idx=PAD)
        self.place = nn.Embedding(LONGEST + 1, 24)
        self.drop = nn.Dropout(dropout)
        sides = 2 if bidirectional else 1
        self.encoder = nn.LSTM(24, units // sides, batch_first=True, bidirectional=bidirectional)
        self.decoder = nn.LSTM(24, units, batch_first=True)
        self.query = nn.Linear(units + 24, units)
        self.out = nn.Linear(2 * units, SIGNS)

    def forward(self, source: Tensor, before: Tensor) -> Tensor:
        places = self.place(torch.arange(LONGEST + 1))
        memory, (state, cell) = self.encoder(self.drop(self.embed(source)) + places)
        state, cell = (v.transpose(0, 1).reshape(1, len(source), -1) for v in (state, cell))
        hidden, _ = self.decoder(self.drop(self.embed(before)), (state, cell))
        steps = places[: before.shape[1]].expand(len(source), -1, -1)
        query = self.query(torch.cat([hidden, steps], 2))
        scores = query @ memory.transpose(1, 2) / memory.shape[2] ** 0.5
        if self.attends == "all":
            weights = scores.softmax(2)
        elif self.attends == "over the batch":
            weights = scores.softmax(0)
        else:
            weights = scores.masked_fill((source == PAD)[:, None], -1e9).softmax(2)
        found: Tensor = self.out(self.drop(torch.cat([hidden, weights @ memory], 2)))
        return found


def own_words(model: nn.Module, source: Tensor) -> Tensor:
    before = torch.full((len(source), 1), START)
    for _ in range(LONGEST):
        scores = model(source, before)
        before = torch.cat([before, scores[:, -1:].argmax(2)], 1)
    return scores


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 4e-3, batch: int = 24,
    optimizer: str = "adam", lessons: int = 3, clip: float = 1.0, sampled: float = 0.0,
    smoothing: float = 0.0, schedule: str = "", pool: int = 0, evaluate_every: int = 200,
    fault: str = "", **shape: Any,
) -> float:  # fmt: skip
    begin(seed)
    data, held = Sequences(seed + 9400, pool), Sequences(seed + 9401).sample(150, LONGEST)
    test = Sequences(seed + 9402).sample(400, LONGEST)
    model = Translator(**shape)
    hook.torch(model)
    kinds = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "nadam": torch.optim.NAdam}
    parameters = model.parameters()
    if fault == "decoder not in the optimizer":
        parameters = model.encoder.parameters()
    updates: Any = kinds[optimizer](parameters, lr=rate)
    for step in range(steps):
        if schedule == "falls":
            updates.param_groups[0]["lr"] = rate * max(0.02, 1 - step / steps)
        lesson = min(lessons, 1 + int(step / steps * 2 * lessons)) if lessons else 1
        longest = LONGEST if lessons < 2 else 3 + (LONGEST - 3) * (lesson - 1) // (lessons - 1)
        rows = data.batch(batch, longest)
        source, target = rows["source"], rows["target"]
        before = functional.pad(target[:, :-1], (1, 0), value=START)
        if fault == "decoder reads the target":  # it is not shifted to the right
            before = target
        if sampled and float(torch.rand(())) < sampled:
            with torch.no_grad():
                said = model(source, before).argmax(2)
            before = torch.where(
                before == PAD, PAD, functional.pad(said[:, :-1], (1, 0), value=START)
            )
        scores = model(source, before)
        if fault == "dimensions flattened wrongly":  # (words, batch) beside (batch, words)
            scores = scores.transpose(0, 1).reshape(batch, LONGEST, SIGNS)
        loss = functional.cross_entropy(
            scores.reshape(-1, SIGNS),
            target.reshape(-1),
            ignore_index=PAD,
            label_smoothing=smoothing,
        )
        updates.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        if evaluate_every and step % evaluate_every == evaluate_every - 1:
            model.eval()
            with torch.no_grad():
                wanted = held["target"]
                found = model(held["source"], functional.pad(wanted[:, :-1], (1, 0), value=START))
                functional.cross_entropy(found.transpose(1, 2), wanted, ignore_index=PAD)
            model.train()
    model.eval()
    with torch.no_grad():
        found = own_words(model, test["source"])
    if not bool(torch.isfinite(found).all()):
        return float("nan")
    there = test["target"] != PAD
    right = (found.argmax(2) == test["target"])[there].double().mean().item()
    return float((right - 1 / SIGNS) / (1 - 1 / SIGNS))


CASES = cases(
    "copied sequences",
    train,
    {
        "plain": {},
        "no lessons": {"lessons": 1},
        "six lessons, one direction": {"lessons": 6, "bidirectional": False, "steps": 2400},
        "own words read at times": {"sampled": 0.25, "steps": 2000},
        "RMSprop, rate falls": {"optimizer": "rmsprop", "rate": 2e-3, "schedule": "falls"},
        "attends to pads, label smoothing": {"attends": "all", "smoothing": 0.1},
        "NAdam, dropout, not evaluated": {
            "optimizer": "nadam", "dropout": 0.1, "steps": 2500, "evaluate_every": 0,
        },
    },
    {
        "decoder reads the target": ("leak", {"fault": "decoder reads the target"}),
        "dimensions flattened wrongly": (
            "broadcast no-skill", {"fault": "dimensions flattened wrongly"},
        ),
        "decoder not in the optimizer": (
            "unbound slow no-skill", {"fault": "decoder not in the optimizer", "steps": 2000},
        ),
        "softmax over the batch": ("softmax-axis no-skill", {"attends": "over the batch"}),
        "few sequences": ("overfit", {"pool": 40}),
        "rate of 1, not clipped": ("fast saturated no-skill", {"rate": 1.0, "clip": 0.0}),
    },
)  # fmt: skip
