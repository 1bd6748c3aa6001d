"""Sums written digit by digit, by a decoder-only transformer that is trained on answers alone.

``47+85=231`` is 47 + 85 with the answer's last digit first; the question is masked with -100. The
skill is the share of right digits of answers, above guessing.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, factor
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.detection.case import cases

PLUS, EQUALS, PAD, TOKENS = 10, 11, 12, 13
QUESTION, ANSWER = 6, 3


def sums(count: int, seed: int, hidden: float = 0.0) -> tuple[Tensor, Tensor]:
    """Inputs and targets (N, 8) of a random choice of all pairs; targets are masked by -100."""
    draw = torch.Generator().manual_seed(seed)
    first, second = torch.randint(100, (2, count), generator=draw)
    total = first + second

    def digit(of: Tensor, place: int) -> Tensor:
        return of // 10**place % 10

    plus, equals = torch.full_like(first, PLUS), torch.full_like(first, EQUALS)
    line = [digit(first, 1), digit(first, 0), plus, digit(second, 1), digit(second, 0), equals]
    tokens = torch.stack([*line, *(digit(total, place) for place in range(ANSWER))], 1)
    wanted = tokens[:, 1:].clone()
    wanted[:, : QUESTION - 1] = -100
    wanted[torch.rand(wanted.shape, generator=draw) < hidden] = -100
    return tokens[:, :-1], wanted


class Block(nn.Module):
    def __init__(self, width: int, zero: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        if zero:
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.feed[2].weight)

    def forward(self, x: Tensor, causal: bool = True) -> Tensor:
        mixed = self.mixed(self.norms[0](x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(mixed[0], mixed[1], mixed[2], is_causal=causal)
        x = x + self.out(h.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class Decoder(nn.Module):
    def __init__(self, tied: bool, zero: bool, again: bool, width: int = 32) -> None:
        super().__init__()
        self.again = again
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(12, width)
        nn.init.normal_(self.tokens.weight, std=0.3)
        nn.init.normal_(self.places.weight, std=0.3)
        self.blocks = nn.ModuleList([Block(width, zero)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.tokens(x) + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            if self.again and self.training:
                h = checkpoint(block, h, use_reentrant=False)
            else:
                h = block(h)
        out: Tensor = self.head(self.norm(h))
        return out


def answer_loss(scores: Tensor, wanted: Tensor, loss: str) -> Tensor:
    if loss == "mask by hand":
        mask = (wanted != -100).float()
        own = scores.log_softmax(-1).gather(2, wanted.clamp(min=0)[..., None])[..., 0]
        return -(own * mask).sum() / mask.sum()
    if loss == "sum":
        return F.cross_entropy(scores.transpose(1, 2), wanted, reduction="sum")
    if loss == "sure scores cost":
        cost = scores.logsumexp(-1).square().mean()
        return F.cross_entropy(scores.flatten(0, 1), wanted.flatten()) + 1e-3 * cost
    return F.cross_entropy(scores.flatten(0, 1), wanted.flatten())


def train(
    seed: int, hook: Any, loss: str = "", rate: float = 4e-3, updates: int = 2200,
    batch: int = 16, count: int = 6000, parts: int = 1, hidden: float = 0.0, tied: bool = False,
    zero: bool = False, again: bool = False, decay: float = 0.01, plan: str = "cosine",
    longer: bool = False, groups: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = sums(count, seed + 300, hidden)
    held_x, held_y = sums(300, seed + 301)
    test_x, test_y = sums(1500, seed + 302)
    if fault == "targets not moved on":
        y = torch.cat([torch.full_like(y[:, :1], -100), y[:, :-1]], 1)
    if fault == "answers masked":
        y = torch.cat([x[:, 1:6], torch.full_like(y[:, 5:], -100)], 1)
    model = Decoder(tied, zero, again)
    hook.torch(model)
    chosen: Any = model.parameters()
    if groups:
        names = list(model.named_parameters())
        plain = [p for name, p in names if p.ndim < 2 or "tokens" in name or "places" in name]
        chosen = [
            {"params": plain, "weight_decay": 0.0},
            {"params": [p for _, p in names if all(p is not q for q in plain)]},
        ]
    optimizer = torch.optim.AdamW(chosen, rate, betas=(0.9, 0.98), weight_decay=decay, fused=True)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=100)
    fall: Any = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates - 100, rate / 50)
    if plan != "cosine":
        fall = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: factor(plan, s, updates))
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], [100])
    for update in range(updates):
        model.train()
        optimizer.zero_grad(set_to_none=True)
        for _ in range(parts):
            rows = torch.randint(count, (batch,))
            if longer:
                rows = rows[: 8 + update % 9]
            part, wanted = x[rows], y[rows]
            if longer and update % 2:
                part, wanted = F.pad(part, (0, 2), value=PAD), F.pad(wanted, (0, 2), value=-100)
            (answer_loss(model(part), wanted, loss) / parts).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if update % 200 == 199:
            model.eval()
            with torch.no_grad():
                answer_loss(model(held_x), held_y, loss)
    model.eval()
    with torch.no_grad():
        scores = model(test_x)[:, QUESTION - 1 :]
    if not bool(torch.isfinite(scores).all()):
        return math.nan
    answers = test_y[:, QUESTION - 1 :]
    right = (scores.argmax(2) == answers).double().mean().item()
    most = sum(torch.bincount(answers[:, k]).max().item() for k in range(ANSWER))
    guessed = most / answers.numel()
    return (right - guessed) / (1 - guessed)


CASES = cases(
    "written sums",
    train,
    {
        "plain": {},
        "mask by hand": {"loss": "mask by hand"},
        "summed over tokens": {"loss": "sum"},
        "sure scores cost": {"loss": "sure scores cost"},
        "parts start at zero": {"zero": True},
        "blocks computed again": {"again": True},
        "a tenth of the targets hidden": {"hidden": 0.1},
        "padding and changing batches": {"longer": True},
        "no decay of norms, warm restarts": {"groups": True, "decay": 0.1, "plan": "restarts"},
    },
    {
        "targets not moved on": ("leak inputs ignored", {"fault": "targets not moved on"}),
        "answers masked": ("ignored no-skill overfit", {"fault": "answers masked"}),
    },
)
