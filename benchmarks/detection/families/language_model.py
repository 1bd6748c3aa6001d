"""A small transformer that predicts the next token of a language with a grammar of its own."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

TOKENS, LENGTH, WIDTH = 24, 24, 32


def sentences(count: int, seed: int) -> Tensor:
    """A token follows from the two before it, but for 10 % of chance."""
    draw = torch.Generator().manual_seed(seed)
    rule = torch.randint(TOKENS, (TOKENS, 3), generator=torch.Generator().manual_seed(1))
    text = torch.randint(TOKENS, (count, LENGTH + 1), generator=draw)
    chance = torch.rand(count, LENGTH + 1, generator=draw) < 0.1
    for place in range(2, LENGTH + 1):
        follows = rule[text[:, place - 1], text[:, place - 2] % 3]
        text[:, place] = torch.where(chance[:, place], text[:, place], follows)
    return text


class Decoder(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 2, 2 * WIDTH, dropout, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        h = self.tokens(text) + self.places.weight[: text.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        scores: Tensor = self.head(self.norm(self.body(h, mask=mask, is_causal=True)))
        return scores


def train(
    seed: int,
    hook: Any,
    rate: float = 3e-3,
    schedule: str = "warmup",
    steps: int = 500,
    batch: int = 16,
    accumulate: int = 1,
    dropout: float = 0.0,
    tied: bool = False,
    shift: int = 1,
    softmax: bool = False,
    ignored: bool = False,
    shuffled: bool = False,
    memorise: int | None = None,
    pad: bool = False,
    clip: float = 1.0,
    left_out: bool = False,
    zero_grad: bool = True,
) -> float:
    begin(seed)
    text, held = sentences(memorise or 4000, seed + 10), sentences(256, seed + 11)
    model = Decoder(dropout)
    if tied:
        model.head.weight = model.tokens.weight
    criterion = nn.CrossEntropyLoss(ignore_index=0 if pad else -100)
    chosen = [p for name, p in model.named_parameters() if not (left_out and "body" in name)]
    optimizer = optimizer_of("adamw", chosen, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        if zero_grad:
            optimizer.zero_grad()
        for _ in range(accumulate):
            rows = text[torch.randint(len(text), (batch,))]
            inputs, labels = rows[:, :-1], torch.roll(rows, 1 - shift, 1)[:, 1:].clone()
            if shuffled:
                labels = labels.flatten()[torch.randperm(labels.numel())].view_as(labels)
            if ignored:
                labels[:] = -100
            scores = model(inputs)
            scores = scores.softmax(-1) if softmax else scores
            (criterion(scores.flatten(0, 1), labels.flatten()) / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                criterion(model(held[:, :-1]).flatten(0, 1), held[:, 1:].flatten())
            model.train()
    model.eval()
    with torch.no_grad():
        right = (model(held[:, :-1]).argmax(-1) == held[:, 1:])[:, 2:].double().mean().item()
    return right / 0.9


CASES = cases(
    "language model",
    train,
    {
        "plain": {},
        "cosine restarts": {"schedule": "restarts"},
        "accumulation": {"accumulate": 4, "batch": 4},
        "tied embeddings with dropout": {"tied": True, "dropout": 0.02, "steps": 700},
        "padding ignored": {"pad": True},
        "tiny batch": {"batch": 4, "steps": 1500, "rate": 2e-3},
    },
    {
        "shuffled labels": ("no-skill", {"shuffled": True}),
        "labels off by two": ("leak", {"shift": -1}),
        "labels equal to inputs": ("leak", {"shift": 0}),
        "softmax before the loss": ("probabilities", {"softmax": True, "rate": 1e-3}),
        "every label ignored": ("ignored no-gradient not-finite", {"ignored": True}),
        "rate x 1000": ("fast no-skill", {"rate": 3.0, "clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "rate jumps half way": ("fast no-skill", {"schedule": "jump", "clip": 0.0}),
        "memorises 50": ("overfit", {"memorise": 50, "steps": 800}),
        "body in no optimizer": ("unbound", {"left_out": True}),
    },
    certain=("body in no optimizer",),
)
