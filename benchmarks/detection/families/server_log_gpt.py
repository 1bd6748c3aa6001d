"""A small GPT reads the log of a server, token by token, in the manner of nanoGPT's train.py.

A line has a service, a level, a verb, an object and a request's number; services follow each
other, and numbers count on. The skill is how far the loss on a prefix that is cut off anywhere
goes from that of the tokens' frequencies (0) to that of the process itself (1).
"""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from benchmarks.detection.case import cases

SERVICES, LEVELS, VERBS, OBJECTS, NUMBERS = 6, 3, 8, 10, 10
STARTS = (1, 7, 10, 18, 28)
VOCABULARY, BLOCK, PREFIX = 38, 32, 20


def write_log(lines: int, seed: int) -> tuple[Tensor, Tensor]:
    """Tokens of a log, and the surprise of each for one who knows the process."""
    draw = random.Random(seed)
    tokens: list[int] = []
    surprise: list[float] = []
    service, number = 0, 0
    for _ in range(lines):
        onward = draw.random() < 0.8
        service = (service + 1) % SERVICES if onward else (service + 3) % SERVICES
        level = 0 if draw.random() < 0.9 else 1 + service % 2
        second_verb, second_object = draw.random() < 0.2, draw.random() < 0.1
        verb = (2 * service + (3 if second_verb else 0)) % VERBS
        thing = (3 * verb + service + (4 if second_object else 0)) % OBJECTS
        number = (number + 1) % NUMBERS
        parts = (service, level, verb, thing, number)
        tokens += [start + part for start, part in zip(STARTS, parts, strict=True)] + [0]
        likely = (0.8 if onward else 0.2, 0.9 if level == 0 else 0.1,
                  0.2 if second_verb else 0.8, 0.1 if second_object else 0.9, 1.0, 1.0)  # fmt: skip
        surprise += [-math.log(p) for p in likely]
    return torch.tensor(tokens), torch.tensor(surprise)


class CausalSelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        out: Tensor = self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, c)))
        return out


class Block(nn.Module):
    def __init__(self, width: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, 2, dropout, causal)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, layers: int, width: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(BLOCK, width)
        self.h = nn.ModuleList(Block(width, dropout, causal) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deep = math.sqrt(2 * layers) if name.endswith("c_proj.weight") else 1.0
                nn.init.normal_(parameter, std=0.05 / deep)

    def forward(
        self, idx: Tensor, targets: Tensor | None = None, loss_of: str = "", reduction: str = "mean"
    ) -> tuple[Tensor, Tensor | None]:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        scores = logits.softmax(-1) if loss_of == "probabilities" else logits
        flat = targets.t().reshape(-1) if loss_of == "transposed" else targets.view(-1)
        return logits, F.cross_entropy(scores.view(-1, VOCABULARY), flat, reduction=reduction)


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 3e-3, batch: int = 8, warmup: int = 100,
    decay_until: int = 2000, lowest: float = 1e-4, accumulate: int = 1, clip: float = 1.0,
    decay: float = 0.1, dropout: float = 0.0, half: bool = False, lines: int = 4000,
    loss_of: str = "", reduction: str = "mean", shift: int = 1, causal: bool = True,
    evaluate_every: int = 250,
) -> float:  # fmt: skip
    begin(seed)
    known, held = write_log(lines, 7 * seed + 11)[0], write_log(400, 7 * seed + 12)[0]
    model = GPT(1, 32, dropout, causal)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))
    hook.torch(model)

    def get_batch(data: Tensor) -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(data) - BLOCK, (batch,)).tolist()
        x = torch.stack([data[i : i + BLOCK] for i in starts])
        return x, torch.stack([data[i + shift : i + shift + BLOCK] for i in starts])

    def get_lr(it: int) -> float:
        if it < warmup:
            return rate * (it + 1) / warmup
        if it > decay_until:
            return lowest
        done = (it - warmup) / max(decay_until - warmup, 1)
        return lowest + 0.5 * (1 + math.cos(math.pi * done)) * (rate - lowest)

    @torch.no_grad()
    def estimate_loss() -> dict[str, float]:
        model.eval()
        found = {
            name: sum(model(*get_batch(part))[1].item() for _ in range(4)) / 4
            for name, part in (("train", known), ("val", held))
        }
        model.train()
        return found

    for it in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = get_lr(it) if decay_until else rate
        if evaluate_every and it % evaluate_every == 0:
            estimate_loss()
        for _ in range(accumulate):
            x, y = get_batch(known)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                _, loss = model(x, y, loss_of, reduction)
            (loss / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    model.eval()
    fresh, surprise = write_log(500, 7 * seed + 13)
    rows = torch.arange(len(fresh) - PREFIX)
    with torch.no_grad():
        logits = model(fresh[rows[:, None] + torch.arange(PREFIX)])[0][:, -1]
    target = fresh[rows + PREFIX]
    share = torch.bincount(fresh, minlength=VOCABULARY) / len(fresh)
    none, best = -share[target].log().mean().item(), surprise[rows + PREFIX].mean().item()
    return (none - F.cross_entropy(logits.float(), target).item()) / (none - best)


CASES = cases(
    "server log GPT",
    train,
    {
        "plain": {},
        "four micro-batches of four lines": {"batch": 4, "accumulate": 4, "steps": 1200},
        "bfloat16": {"half": True, "steps": 1200, "decay_until": 1200},
        "no warm-up, constant, not clipped": {"warmup": 0, "decay_until": 0, "clip": 0.0,
                                              "rate": 1e-3},
        "two windows at a time": {"batch": 2, "rate": 2e-3},
        "dropout and heavy decay": {"dropout": 0.1, "decay": 1.0},
        "summed and not evaluated": {"reduction": "sum", "evaluate_every": 0},
    },
    {
        "targets not shifted": ("leak", {"shift": 0}),
        "attention not causal": ("leak", {"causal": False}),
        "warm-up in tokens": ("schedule slow", {"warmup": 200_000}),
        "rate of SGD": ("fast worse no-skill collapse", {"rate": 0.5}),
        "softmax before the loss": ("probabilities", {"loss_of": "probabilities"}),
        "log of thirty lines": ("overfit", {"lines": 30}),
    },
)  # fmt: skip
