"""An encoder that filled in masked tokens first is fine-tuned to sort questions by topic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn

from benchmarks.detection.case import cases

PAD, CLS, MASK, FIRST = 0, 1, 2, 3
TOPICS, TOPIC_WORDS, LENGTH = 6, 20, 14
WORDS = FIRST + TOPICS * TOPIC_WORDS


def questions(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(N, LENGTH) tokens, padded, and what each is about: two thirds of its words or so."""
    draw = torch.Generator().manual_seed(seed)
    topic = torch.randint(TOPICS, (count,), generator=draw)
    shape = (count, LENGTH - 1)
    other = torch.randint(TOPICS, shape, generator=draw)
    stays = torch.rand(shape, generator=draw) < 0.65
    of = torch.where(stays, topic[:, None], other)
    words = FIRST + of * TOPIC_WORDS + torch.randint(TOPIC_WORDS, shape, generator=draw)
    length = torch.randint(7, LENGTH, (count, 1), generator=draw)
    words = words.masked_fill(torch.arange(LENGTH - 1) >= length, PAD)
    return torch.cat([torch.full((count, 1), CLS), words], 1), topic


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
        q, k, v = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).chunk(3, 2)
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        weights = scores.masked_fill(~mask[:, None, None, :], -1e9).softmax(axis)
        x = x + self.dropout(self.proj((weights @ v).transpose(1, 2).flatten(2)))
        out: Tensor = x + self.dropout(self.mlp(self.ln2(x)))
        return out


class Encoder(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.layers = nn.ModuleList(Layer(width, 2, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
        place = torch.arange(x.shape[1])
        h = self.words(x) + self.positions(place)
        for layer in self.layers:
            h = layer(h, mask, axis)
        out: Tensor = self.norm(h)
        return out


def pretrained(seed: int, steps: int = 200) -> dict[str, Tensor]:
    """The weights after masked tokens of unlabelled questions were filled in."""
    encoder, draw = Encoder(dropout=0.0), torch.Generator().manual_seed(seed)
    optim = torch.optim.AdamW(encoder.parameters(), 4e-3)
    for step in range(steps):
        optim.param_groups[0]["lr"] = 4e-3 * min(1.0, step / 30, (steps - step) / 100)
        x, _ = questions(32, seed * 1000 + step + 5000)
        hidden = (torch.rand(x.shape, generator=draw) < 0.2) & (x >= FIRST)
        h = encoder(x.masked_fill(hidden, MASK), x != PAD)
        loss = F.cross_entropy(h[hidden] @ encoder.words.weight.T, x[hidden])
        optim.zero_grad()
        loss.backward()
        optim.step()
    state: dict[str, Tensor] = encoder.state_dict()
    return state


class Classifier(nn.Module):
    def __init__(self, pooling: str, dropout: float, fault: str) -> None:
        super().__init__()
        self.encoder = Encoder(dropout=dropout)
        self.dense, self.dropout = nn.Linear(32, 32), nn.Dropout(dropout)
        self.out = nn.Linear(32, TOPICS)
        self.pooling, self.fault = pooling, fault

    def forward(self, x: Tensor) -> Tensor:
        mask = x == PAD if self.fault == "mask inverted" else x != PAD
        h = self.encoder(x, mask, 0 if self.fault == "attends over the batch" else -1)
        if self.fault == "without gradient":
            h = h.detach()
        if self.pooling == "mean":
            pooled = (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        else:
            pooled = h[:, -1 if self.fault == "pools the padding" else 0]
        scores: Tensor = self.out(self.dropout(torch.tanh(self.dense(pooled))))
        return scores


def groups(
    model: Classifier, decay: float, rate: float, layer_decay: float
) -> list[dict[str, Any]]:
    """No decay for biases and norms; lower rates for what is nearer to the words."""
    found = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        depth = 0 if "encoder" not in name else 1 if "layers.1" in name or "norm" in name else 2
        found.append({
            "params": [parameter], "lr": rate * layer_decay**depth,
            "weight_decay": decay if parameter.dim() > 1 else 0.0,
        })  # fmt: skip
    return found


def endless(x: Tensor, y: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        for rows in torch.randperm(len(x)).split(batch):
            yield x[rows], y[rows]


def train(
    seed: int, hook: Any, steps: int = 300, rate: float = 2e-3, batch: int = 16, count: int = 400,
    warmup: float = 0.1, planned: int = 0, schedule: str = "linear", decay: float = 0.01,
    layer_decay: float = 1.0, dropout: float = 0.1, pooling: str = "mean", clip: float = 1.0,
    accumulate: int = 1, frozen: str = "", unfreeze_at: int = 0, smoothing: float = 0.0,
    noise: float = 0.0, scale: float = 1.0, bfloat16: bool = False, loaded: bool = True,
    every: int = 100, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    state = pretrained(seed)
    (x, y), (test, test_y) = questions(count, seed + 900), questions(400, seed + 901)
    y = torch.where(torch.rand(count) < noise, torch.randint(TOPICS, (count,)), y)
    other = torch.cat([torch.arange(FIRST), FIRST + torch.randperm(WORDS - FIRST)])
    if fault == "another tokenizer in the test":
        test = other[test]
    if fault == "cut after a word":
        x, test = x[:, :2], test[:, :2]
    if fault == "labels of other rows":
        y = y[torch.randperm(count)]
    if fault == "sorted by label":
        order = y.argsort(stable=True)
        x, y = x[order], y[order]
    model = Classifier(pooling, dropout, fault)
    if loaded:
        model.encoder.load_state_dict(state)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not (frozen and name.startswith(tuple(frozen.split()))))
    hook.torch(model)
    chosen = groups(model, decay, rate, layer_decay)
    if fault == "head left out":
        head = {id(p) for part in (model.dense, model.out) for p in part.parameters()}
        chosen = [group for group in chosen if id(group["params"][0]) not in head]
    optim = torch.optim.AdamW(chosen)
    total = planned or steps

    def factor(step: int) -> float:
        if step < warmup * total:
            return (step + 1) / (warmup * total + 1)
        left = max(0.0, (total - step) / (total * (1 - warmup)))
        return {"linear": left, "constant": 1.0, "cosine": 0.5 - 0.5 * math.cos(math.pi * left)}[
            schedule
        ]

    scheduler = torch.optim.lr_scheduler.LambdaLR(optim, factor)
    source = endless(x, y, batch)
    if fault == "sorted by label":
        parts = [*zip(x.split(batch), y.split(batch), strict=True)]
        source = (part for _ in range(99) for part in parts)
    model.train()
    for step in range(steps):
        if unfreeze_at and step == unfreeze_at:
            model.requires_grad_(True)
            optim.add_param_group({"params": list(model.encoder.parameters()), "lr": rate})
            scheduler.lr_lambdas.append(factor)
            scheduler.base_lrs.append(rate)
        for _ in range(accumulate):
            x_batch, y_batch = next(source)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                scores = model(x_batch)
                loss = F.cross_entropy(scores, y_batch, label_smoothing=smoothing)
            (loss * scale / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optim.step()
        scheduler.step()
        if fault != "no zero_grad":
            optim.zero_grad(set_to_none=True)
        if every and (step + 1) % every == 0:
            evaluate(model, test, test_y)
    return class_skill(evaluate(model, test, test_y), test_y)


def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.eval()
    with torch.no_grad():
        scores = torch.cat([model(part) for part in x.split(100)])
        F.cross_entropy(scores, y)
    model.train()
    return scores


CASES = cases(
    "tuned encoder",
    train,
    {
        "plain": {},
        "encoder frozen for a while": {"frozen": "encoder", "unfreeze_at": 60, "steps": 500},
        "rate by layer": {"layer_decay": 0.7, "rate": 3e-3},
        "cosine, long warm-up": {"schedule": "cosine", "warmup": 0.3},
        "constant rate": {"schedule": "constant", "rate": 1e-3},
        "batch of 4": {"batch": 4, "steps": 900, "rate": 1e-3},
        "batch of 64": {"batch": 64, "steps": 160, "rate": 3e-3, "smoothing": 0.05},
        "accumulation": {"batch": 4, "accumulate": 4},
        "smoothed labels": {"smoothing": 0.1},
        "labels with noise": {"noise": 0.05, "smoothing": 0.1, "count": 700, "steps": 400},
        "no dropout, no evaluation": {"dropout": 0.0, "every": 0},
        "bfloat16": {"bfloat16": True},
        "loss x 10,000": {"scale": 1e4},
        "decay of 0.3": {"decay": 0.3},
    },
    {
        "mask inverted": ("not-finite inputs no-skill ignored", {"fault": "mask inverted"}),
        "attends over the batch": (
            "softmax-axis no-skill", {"fault": "attends over the batch", "batch": 16},
        ),
        "pools the padding, frozen": (
            "slow no-skill", {"fault": "pools the padding", "pooling": "last", "frozen": "encoder"},
        ),
        "another tokenizer in the test": (
            "inputs overfit", {"fault": "another tokenizer in the test"},
        ),
        "cut after a word": ("inputs no-skill overfit", {"fault": "cut after a word"}),
        "labels of other rows": ("no-skill overfit", {"fault": "labels of other rows"}),
        "sorted by label": ("order", {"fault": "sorted by label"}),
        "weights not loaded, few rows": ("overfit", {"loaded": False, "count": 30}),
        "without gradient, not loaded": (
            "no-gradient slow", {"fault": "without gradient", "loaded": False, "rate": 1e-3},
        ),
        "head left out": (
            "unbound slow", {"fault": "head left out", "frozen": "encoder.layers encoder.words"},
        ),
        "rate of 0.5": ("fast no-skill dead", {"rate": 0.5, "clip": 0.0}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
        "plan of twelve steps": ("schedule slow", {"planned": 12}),
        "no zero_grad": ("kept-gradients", {"fault": "no zero_grad", "clip": 0.0}),
        "ten questions": ("overfit", {"count": 10}),
    },
)  # fmt: skip
