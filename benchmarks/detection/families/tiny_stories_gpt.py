"""A small GPT continues stories of a toy grammar, in the manner of nanoGPT's training script."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from benchmarks.detection.case import cases

NAMES, ANIMALS = ("tom", "lily", "sam", "anna"), ("cat", "dog", "fox", "bird", "frog")
PLACES, FEELINGS = ("park", "lake", "wood", "farm"), ("happy", "sad", "proud")
SOUND = dict(zip(ANIMALS, ("mewed", "barked", "yelped", "sang", "croaked"), strict=True))
WORDS = sorted(
    {*NAMES, *ANIMALS, *PLACES, *FEELINGS, *SOUND.values(), ".", "<end>", "a", "the", "saw", "in"}
    | {"once", "and", "it", "was", "went", "to", "with", "home", "then", "said", "hello"}
)
ITOS = dict(enumerate(WORDS))
STOI = {word: number for number, word in ITOS.items()}


def story(draw: np.random.Generator) -> list[str]:
    """Names, places and sounds come back later: they can be known from what was said."""
    name, animal = draw.choice(NAMES), draw.choice(ANIMALS)
    place, feeling = draw.choice(PLACES), draw.choice(FEELINGS)
    text = f"once {name} went to the {place} . in the {place} {name} saw a {animal} . "
    text += f"{name} said hello and the {animal} {SOUND[animal]} . "
    if draw.random() < 0.5:
        text += f"it was {feeling} and {name} was {feeling} . "
    return [*f"{text}then {name} went home with the {animal} . <end>".split()]


def corpus(count: int, seed: int) -> Tensor:
    draw = np.random.default_rng(seed)
    return torch.tensor([STOI[word] for _ in range(count) for word in story(draw)])


@dataclass(frozen=True)
class GPTConfig:
    block_size: int = 32
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    dropout: float = 0.0
    start: str = "gpt"
    fault: str = ""


class CausalSelfAttention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.config = config
        mask = torch.ones(config.block_size, config.block_size).tril()
        if config.fault == "no mask":
            mask = torch.ones_like(mask)
        if config.fault == "mask of the future":
            mask = torch.ones_like(mask).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        count, length, width = x.shape
        heads = self.config.n_head

        def split(part: Tensor) -> Tensor:
            return part.view(count, length, heads, width // heads).transpose(1, 2)

        q, k, v = (split(part) for part in self.c_attn(x).chunk(3, 2))
        att = q @ k.transpose(2, 3) / math.sqrt(width // heads)
        mask = self.mask[:length, :length]
        att = att.masked_fill(mask == 0, float("-inf")).softmax(3)
        y = (self.drop(att) @ v).transpose(1, 2).reshape(count, length, width)
        out: Tensor = self.drop(self.c_proj(y))
        return out


class Block(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.n_embd
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
            nn.Dropout(config.dropout),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class GPT(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.wte = nn.Embedding(len(WORDS), config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, len(WORDS), bias=False)
        self.fault = config.fault
        for p in self.parameters():
            if config.start in ("gpt", "wide") and p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.05 if config.start == "gpt" else 3.0)

    def forward(self, idx: Tensor) -> Tensor:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        logits: Tensor = self.lm_head(self.ln_f(self.h(x)))
        return logits.softmax(2) if self.fault == "softmax in the model" else logits


def get_batch(data: Tensor, batch_size: int, block_size: int, fault: str = "") -> Any:
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    if fault == "always the beginning":
        ix = torch.arange(batch_size) % 4
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    if fault == "targets not shifted":
        y = x
    if fault == "targets from other places":
        y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix[torch.randperm(len(ix))]])
    return x, y


def loss_of(logits: Tensor, y: Tensor, kind: str, smoothing: float) -> Tensor:
    if kind == "transposed":
        return F.cross_entropy(logits.transpose(0, 1).reshape(-1, len(WORDS)), y.reshape(-1))
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), label_smoothing=smoothing)


def get_lr(it: int, kind: str, rate: float, max_iters: int) -> float:
    """Linear warm-up, then half a cosine down to a tenth."""
    if kind == "constant":
        return rate
    if kind == "degrees":  # of math.cos, and no bound: beyond the end it rises again
        return rate * (1 + math.cos(math.degrees(it))) * 20
    if kind == "restarts":
        return rate * (0.55 + 0.45 * math.cos(math.pi * (it % (max_iters // 3)) / (max_iters // 3)))
    warmup = max_iters // 10
    if it < warmup:
        return rate * (it + 1) / warmup
    return rate * (0.55 + 0.45 * math.cos(math.pi * (it - warmup) / (max_iters - warmup)))


def configure_optimizers(model: nn.Module, kind: str, rate: float, decay: float) -> Any:
    params = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in params if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]
    if kind == "adam":
        return torch.optim.Adam(params, rate)
    return torch.optim.AdamW(groups, rate, betas=(0.9, 0.95))


@torch.no_grad()
def estimate_loss(model: nn.Module, splits: dict[str, Tensor], size: int, fault: str) -> Any:
    out = {}
    model.eval()
    for split, data in splits.items():
        losses = torch.zeros(4)
        for k in range(4):
            x, y = get_batch(data, 32, size, fault)
            losses[k] = loss_of(model(x), y, "", 0.0).item()
        out[split] = losses.mean()
    model.train()
    return out


@torch.no_grad()
def continued(model: GPT, data: Tensor, size: int, fault: str) -> float:
    """The share of next words that are right, each after a context of the stories so far."""
    model.eval()
    x = data[: len(data) // size * size].view(-1, size)[:150]
    if fault == "another vocabulary":
        x = torch.arange(len(WORDS)).roll(1)[x]
    last = []
    for stop in range(size // 2, size - 1):  # one at a time, as text is generated
        logits = model(x[:, : stop + 1])[:, -1]
        last.append(torch.where(torch.isfinite(logits).all(1), logits.argmax(1), -1))
    found, wanted = torch.stack(last, 1), x[:, size // 2 + 1 :]
    guess = torch.bincount(wanted.flatten()).max().item() / wanted.numel()
    right = (found == wanted).double().mean().item()
    return (right - guess) / (1 - guess) if bool((found >= 0).all()) else math.nan


def train(
    seed: int, hook: Any, learning_rate: float = 4e-3, max_iters: int = 450, batch_size: int = 12,
    optimizer: str = "adamw", schedule: str = "warmup", weight_decay: float = 0.1,
    grad_clip: float = 1.0, eval_interval: int = 100, scale: float = 1.0,
    smoothing: float = 0.0, loss: str = "", half: bool = False,
    average: bool = False, growing: bool = False, fault: str = "", **shape: Any,
) -> float:  # fmt: skip
    begin(seed)
    config = GPTConfig(fault=fault, **shape)
    train_data, val_data = (
        corpus(3 if fault == "three" else 1500, seed + 900),
        corpus(250, seed + 901),
    )
    if fault == "words shuffled":
        train_data = train_data[torch.randperm(len(train_data))]
    model = GPT(config)
    trained = copy.deepcopy(model) if fault == "loaded after the optimizer" else model
    adapt = configure_optimizers(trained, optimizer, learning_rate, weight_decay)
    ema = copy.deepcopy(model) if average else model
    splits = {"train": train_data, "val": val_data}
    hook.torch(model)
    for it in range(max_iters):
        for group in adapt.param_groups:
            group["lr"] = get_lr(it, schedule, learning_rate, max_iters)
        if eval_interval and it % eval_interval == eval_interval - 1:
            estimate_loss(ema, splits, config.block_size, fault)
        length = config.block_size // 2 if growing and it < max_iters // 6 else config.block_size
        x, y = get_batch(train_data, batch_size, length, fault)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(x)
        error = loss_of(logits.float(), y, loss, smoothing) * scale
        if fault == "loss in float16":
            error = error.half() * 2**16
        error.backward()
        if grad_clip:
            nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        adapt.step()
        if fault != "zero_grad left out":
            adapt.zero_grad(set_to_none=True)
        if average:
            with torch.no_grad():
                for old, new in zip(ema.parameters(), model.parameters(), strict=True):
                    old.lerp_(new, 0.03)
    return continued(ema, val_data, config.block_size, fault)


CASES = cases(
    "tiny stories GPT",
    train,
    {
        "plain": {},
        "Adam": {"optimizer": "adam"},
        "batch of four": {"batch_size": 4, "max_iters": 900, "learning_rate": 2e-3},
        "batch of 64": {"batch_size": 64, "max_iters": 280, "learning_rate": 6e-3},
        "loss x 10,000": {"scale": 1e4, "grad_clip": 0.0},
        "constant rate": {"schedule": "constant", "learning_rate": 2e-3},
        "restarts": {"schedule": "restarts"},
        "dropout": {"dropout": 0.03, "max_iters": 600},
        "label smoothing": {"smoothing": 0.1},
        "bfloat16": {"half": True},
        "average of weights": {"average": True},
        "PyTorch's start": {"start": ""},
        "short contexts first": {"growing": True, "max_iters": 600},
        "no evaluation": {"eval_interval": 0},
    },
    {
        "targets not shifted": ("leak no-skill", {"fault": "targets not shifted"}),
        "targets from other places": ("no-skill", {"fault": "targets from other places"}),
        "no mask": ("leak", {"fault": "no mask"}),
        "mask of the future": ("not-finite leak", {"fault": "mask of the future"}),
        "logits transposed": ("no-skill", {"loss": "transposed"}),
        "scaled beyond half precision": ("not-finite", {"fault": "loss in float16"}),
        "softmax in the model": (
            "probabilities slow",
            {"fault": "softmax in the model", "learning_rate": 5e-4},
        ),
        "words shuffled": ("no-skill", {"fault": "words shuffled"}),
        "another vocabulary": ("inputs", {"fault": "another vocabulary"}),
        "always the beginning": ("overfit order", {"fault": "always the beginning"}),
        "three stories": ("overfit", {"fault": "three"}),
        "loaded after the optimizer": ("unbound no-skill", {"fault": "loaded after the optimizer"}),
        "zero_grad left out": (
            "kept-gradients fast",
            {
                "fault": "zero_grad left out",
                "grad_clip": 0.0,
                "learning_rate": 0.015,
                "schedule": "constant",
            },
        ),
        "rate x 250": ("fast no-skill", {"learning_rate": 1.0, "grad_clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"learning_rate": 4e-6}),
        "cosine of degrees": ("fast schedule", {"schedule": "degrees"}),
        "wide start": ("saturated fast", {"start": "wide", "learning_rate": 1e-4}),
    },
)
