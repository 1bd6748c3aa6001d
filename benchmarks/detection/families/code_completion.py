"""A small GPT completes Python's own library, letter by letter, from random windows of it."""

from __future__ import annotations

import argparse
import configparser
import copy
import csv
import math
import textwrap
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

BLOCK, HEADS = 32, 2
CONTEXTS = (8, 16, 24, 32)


def sources() -> str:
    modules: Any = (configparser, argparse, csv, textwrap)
    return "".join(Path(module.__file__).read_text() for module in modules)


class Attention(nn.Module):
    def __init__(self, width: int, dropout: float, mask: Tensor) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        parts = self.c_attn(x).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(~self.mask[:t, :t], -math.inf)
        y = self.drop(F.softmax(att, dim=-1)) @ v
        out: Tensor = self.drop(self.c_proj(y.transpose(1, 2).reshape(b, t, c)))
        return out


class Block(nn.Module):
    def __init__(self, width: int, dropout: float, mask: Tensor) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, dropout, mask)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        y: Tensor = x + self.mlp(self.ln_2(x))
        return y


class Gpt(nn.Module):
    def __init__(self, letters: int, width: int, dropout: float, mask: Tensor, std: float) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(letters, width), nn.Embedding(BLOCK, width)
        self.h = nn.Sequential(*(Block(width, dropout, mask) for _ in range(2)))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, letters, bias=False)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, 0.0, std)

    def forward(self, idx: Tensor) -> Tensor:
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        logits: Tensor = self.lm_head(self.ln_f(self.h(x)))
        return logits


def rate_at(it: int, iters: int, rate: float, warmup: int, schedule: str) -> float:
    if it < warmup:
        return rate * (it + 1) / warmup
    if schedule == "constant":
        return rate
    done = (it - warmup) / max(1, iters - warmup)
    return rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))


def loss_of(fault: str, logits: Tensor, y: Tensor, smoothing: float) -> Tensor:
    letters = logits.size(-1)
    if fault == "softmax over time":
        return F.nll_loss(logits.log_softmax(1).view(-1, letters), y.reshape(-1))
    if fault == "probabilities":
        logits = logits.softmax(-1)
    flat = y.reshape(-1)
    return F.cross_entropy(
        logits.view(-1, letters), flat, ignore_index=-1, label_smoothing=smoothing
    )


def train(
    seed: int, hook: Any, rate: float = 6e-3, iters: int = 250, batch: int = 8,
    accumulate: int = 2, warmup: int = 20, schedule: str = "cosine", clip: float = 1.0,
    decay: float = 0.1, dropout: float = 0.0, std: float = 0.05, smoothing: float = 0.0,
    factor: float = 1.0, noise: float = 0.0, half: bool = False,
    ema: bool = False, lengths: bool = False, evaluate: int = 100,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    text = sources()
    cut = int(0.9 * len(text))
    letters = sorted(set(text))
    stoi = {letter: i for i, letter in enumerate(letters)}
    train_data = torch.tensor([stoi[letter] for letter in text[:cut]])
    val_data = torch.tensor([stoi[letter] for letter in text[cut:]])
    if noise:
        hit = torch.rand(len(train_data)) < noise
        train_data = torch.where(hit, torch.randint(len(letters), hit.shape), train_data)
    if fault == "one function":
        train_data = train_data[5000:6000]
    mask = torch.ones(BLOCK, BLOCK, dtype=torch.bool)
    if fault != "no mask":
        mask = mask.tril(-1 if fault == "mask without the diagonal" else 0)
    model = Gpt(len(letters), 32, dropout, mask, std)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}
    ]  # fmt: skip
    if fault == "one group alone":
        groups = groups[1:]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))
    average = copy.deepcopy(model) if ema else model

    def get_batch(split: str, length: int = BLOCK) -> tuple[Tensor, Tensor]:
        data = train_data if split == "train" else val_data
        if fault == "seeded in get_batch":
            torch.manual_seed(1337)
        ix = torch.randint(len(data) - BLOCK - 1, (batch,))
        x = torch.stack([data[i : i + length] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + length] for i in ix])
        if fault == "targets not shifted":
            y = x
        if fault == "every target ignored":
            y = torch.full_like(y, -1)
        return x, y

    @torch.no_grad()
    def estimate_loss() -> dict[str, float]:
        model.eval()
        out = {}
        for split in ("train", "val"):
            pairs = [get_batch(split) for _ in range(8)]
            losses = [loss_of(fault, model(x), y, 0.0).item() for x, y in pairs]
            out[split] = sum(losses) / len(losses)
        model.train()
        return out

    hook.torch(model)
    for it in range(iters):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(it, iters, rate, warmup, schedule)
        if evaluate and it % evaluate == 0:
            estimate_loss()
        for _micro in range(accumulate):
            x, y = get_batch("train", 8 if lengths and it < iters // 5 else BLOCK)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = model(x)
            loss = loss_of(fault, logits.float(), y, smoothing) * factor / accumulate
            loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if fault != "never zeroed":
            optimizer.zero_grad(set_to_none=True)
        if ema:
            for kept, p in zip(average.parameters(), model.parameters(), strict=True):
                kept.data.lerp_(p.data, 0.05)
    counts = torch.bincount(train_data, minlength=len(letters)) + 1.0
    return float(completion_skill(average, val_data, (counts / counts.sum()).log()))


@torch.no_grad()
def completion_skill(model: Any, data: Tensor, frequency: Tensor) -> float:
    """How much fewer nats the next letter takes than by frequency, with the past alone given."""
    model.eval()
    starts = torch.linspace(0, len(data) - BLOCK - 2, 400).long()
    own, base = 0.0, 0.0
    for length in CONTEXTS:
        x = torch.stack([data[i : i + length] for i in starts])
        y = data[starts + length]
        own += F.cross_entropy(model(x)[:, -1], y).item()
        base += F.nll_loss(frequency.expand(len(y), -1), y).item()
    return 1 - own / base


CASES = cases(
    "code completion",
    train,
    {
        "plain": {},
        "no accumulation": {"accumulate": 1, "batch": 16},
        "accumulation of eight": {"accumulate": 4, "batch": 4},
        "constant rate": {"schedule": "constant", "rate": 4e-3},
        "long warm-up": {"warmup": 80, "iters": 300},
        "dropout": {"dropout": 0.02, "iters": 300},
        "bfloat16": {"half": True},
        "label smoothing": {"smoothing": 0.02},
        "ema": {"ema": True},
        "loss times 10000": {"factor": 1e4},
        "letters with noise": {"noise": 0.01, "iters": 300},
        "short windows first": {"lengths": True, "iters": 300},
        "no evaluation": {"evaluate": 0},
    },
    {
        "no mask": ("leak", {"fault": "no mask"}),
        "targets not shifted": ("leak", {"fault": "targets not shifted"}),
        "softmax over time": ("softmax-axis no-skill", {"fault": "softmax over time"}),
        "softmax before cross entropy": ("probabilities", {"fault": "probabilities"}),
        "mask without the diagonal": ("not-finite", {"fault": "mask without the diagonal"}),
        "every target ignored": ("ignored not-finite", {"fault": "every target ignored"}),
        "never zeroed": ("kept-gradients no-skill fast", {"fault": "never zeroed", "clip": 0.0}),
        "warm-up longer than the run": ("schedule slow", {"warmup": 100_000}),
        "matrices in no group": ("unbound", {"fault": "one group alone"}),
        "one function": ("overfit", {"fault": "one function"}),
        "seeded in get_batch": ("overfit", {"fault": "seeded in get_batch"}),
        "rate x 200": ("fast no-skill", {"rate": 1.0, "clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"rate": 6e-6}),
        "started too wide": ("saturated slow fast worse", {"std": 3.0}),
    },
)  # fmt: skip
