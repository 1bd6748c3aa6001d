"""Sequence to sequence with attention and teacher forcing: sorts digits of lists of any length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, optimizer_of, scheduler_of

PAD, START, FIRST, VALUES, LONGEST, WIDTH = 0, 1, 2, 10, 6, 48
Pairs = list[tuple[Tensor, Tensor]]


def lists(count: int, seed: int, task: str, longest: int = LONGEST, wrong: float = 0.0) -> Pairs:
    draw = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        length = int(torch.randint(3, longest + 1, (1,), generator=draw))
        source = torch.randint(VALUES, (length,), generator=draw) + FIRST
        target = source.flip(0) if task == "reverse" else source.sort().values
        other = torch.randint(VALUES, (length,), generator=draw) + FIRST
        target = torch.where(torch.rand(length, generator=draw) < wrong, other, target)
        found.append((source, target))
    return found


def collate(pairs: Pairs, fault: str = "") -> tuple[Tensor, Tensor]:
    """Sources, longest first as packed sequences need them, and their targets; padded."""
    order = sorted(range(len(pairs)), key=lambda at: -len(pairs[at][0]))
    of_targets = range(len(pairs)) if fault == "only sources sorted" else order
    pad = nn.utils.rnn.pad_sequence
    sources = pad([pairs[at][0] for at in order], batch_first=True, padding_value=PAD)
    targets = pad([pairs[at][1] for at in of_targets], batch_first=True, padding_value=PAD)
    return sources, targets


def one_back(target: Tensor) -> Tensor:
    """What the teacher gives: the word before each."""
    return torch.cat([torch.full((len(target), 1), START), target[:, :-1]], 1)


class Translator(nn.Module):
    def __init__(self, attention_axis: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(FIRST + VALUES, 24, padding_idx=PAD)
        self.encoder = nn.GRU(24, WIDTH // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(24, WIDTH, batch_first=True)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Sequential(
            nn.Linear(2 * WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, FIRST + VALUES)
        )
        self.attention_axis = attention_axis

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        lengths = (source != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.words(source), lengths, batch_first=True)
        states, last = self.encoder(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        return states, torch.cat([last[0], last[1]], 1)[None]

    def decode(
        self, given: Tensor, state: Tensor, states: Tensor, seen: Tensor
    ) -> tuple[Tensor, Tensor]:
        out, state = self.decoder(self.words(given), state)
        scores = out @ self.key(states).transpose(1, 2) / WIDTH**0.5
        weights = scores.masked_fill(~seen[:, None], -1e9).softmax(self.attention_axis)
        return self.head(torch.cat([out, weights @ states], 2)), state

    def forward(self, source: Tensor, given: Tensor) -> Tensor:
        states, state = self.encode(source)
        return self.decode(given, state, states, source != PAD)[0]


def skill(model: Translator, pairs: Pairs) -> float:
    """The share of digits that are right, above chance, where each is written from those before."""
    model.eval()
    source, target = collate(pairs)
    with torch.no_grad():
        states, state = model.encode(source)
        word = torch.full((len(source), 1), START)
        written = []
        for _ in range(target.shape[1]):
            scores, state = model.decode(word, state, states, source != PAD)
            word = scores[:, :, FIRST:].argmax(2) + FIRST
            written.append(word)
    right = (torch.cat(written, 1) == target)[target != PAD].double().mean().item()
    return float((right - 1 / VALUES) / (1 - 1 / VALUES))


def token_loss(scores: Tensor, target: Tensor, smoothing: float, fault: str) -> Tensor:
    """The sum over a sentence, as a mean over sentences: many write it so."""
    chances = scores.log_softmax(2)
    nll = -chances.gather(2, target[:, :, None]).squeeze(2)
    nll = (1 - smoothing) * nll - smoothing * chances[:, :, FIRST:].mean(2)
    counted = target == PAD if fault == "mask upside down" else target != PAD
    return (nll * counted).sum(1).mean()


def train(
    seed: int, hook: Any, task: str = "sort", steps: int = 450, rate: float = 4e-3, batch: int = 32,
    schedule: str = "constant", clip: float = 1.0, smoothing: float = 0.0, wrong: float = 0.0,
    forced: float = 1.0, lessons: bool = False, per_token: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    count = 40 if fault == "forty lists" else 4000
    data = lists(count, seed + 310, task, wrong=wrong)
    held = lists(400, seed + 311, task)
    if lessons:
        data.sort(key=lambda pair: len(pair[0]))
    model = Translator(attention_axis=1 if fault == "attention axis" else 2)
    optimizer = optimizer_of("adam", model.parameters(), rate)
    if fault == "head made again":  # for another vocabulary, after the optimizer
        model.words = nn.Embedding(FIRST + VALUES, 24, padding_idx=PAD)
        model.head[2] = nn.Linear(WIDTH, FIRST + VALUES)
        model.head[0] = nn.Linear(2 * WIDTH, WIDTH)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        known = max(batch, int(len(data) * min(1, 0.2 + 1.6 * step / steps)))
        rows = torch.randint(known if lessons else len(data), (min(batch, len(data)),))
        source, target = collate([data[int(row)] for row in rows], fault)
        given = target if fault == "teacher one ahead" else one_back(target)
        if fault == "sources of nothing":
            source = (source != PAD).long() * FIRST
        scores = model(source, given)
        if forced < 1:
            own = torch.cat([given[:, :1], scores.detach().argmax(2)[:, :-1]], 1)
            scores = model(source, torch.where(torch.rand(own.shape) < forced, given, own))
        loss = token_loss(scores, target, smoothing, fault)
        if per_token:
            loss = loss * len(target) / (target != PAD).sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                source, target = collate(held[:64])
                token_loss(model(source, one_back(target)), target, 0.0, "")
            model.train()
    return skill(model, held)


CASES = cases(
    "attention sequence",
    train,
    {
        "plain": {},
        "reverse": {"task": "reverse", "steps": 650},
        "clipped at 0.1": {"clip": 0.1},
        "label smoothing": {"smoothing": 0.1},
        "own words now and then": {"forced": 0.8, "steps": 400},
        "short lists first": {"lessons": True},
        "batch of eight": {"batch": 8, "steps": 900, "rate": 3e-3},
        "loss of a token": {"per_token": True},
        "targets with noise": {"wrong": 0.1, "steps": 600},
        "warm restarts": {"schedule": "restarts", "rate": 6e-3, "steps": 600},
    },
    {
        "only sources sorted": ("no-skill", {"fault": "only sources sorted"}),
        "teacher one ahead": ("leak", {"fault": "teacher one ahead"}),
        "mask upside down": ("leak ignored no-skill", {"fault": "mask upside down"}),
        "attention over the wrong axis": ("softmax-axis no-skill", {"fault": "attention axis"}),
        "sources of nothing": ("inputs no-skill", {"fault": "sources of nothing"}),
        "head made again": ("unbound slow", {"fault": "head made again"}),
        "forty lists": ("overfit", {"fault": "forty lists"}),
        "rate / 1000": ("slow no-skill", {"rate": 4e-6}),
        "rate x 300": ("fast no-skill saturated", {"rate": 1.2, "clip": 100.0}),
    },
)
