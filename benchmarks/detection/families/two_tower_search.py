"""Two towers put queries near their documents; the other documents of a batch are the negatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

VOCABULARY, TOPICS, OF_TOPIC, LONG, SHORT, PAD = 600, 60, 10, 24, 12, 0
HELD, NEAREST = 400, 10
averages: Any = torch.optim.swa_utils


@dataclass
class Config:
    steps: int = 2000
    batch_size: int = 64
    lr: float = 2e-3
    dim: int = 32
    temperature: float = 0.1
    pooling: str = "mean"
    shared: bool = False
    hidden: int = 0
    dropout: float = 0.0
    loss: str = "in batch"
    symmetric: bool = False
    smoothing: float = 0.0
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: str = ""
    warmup: int = 0
    scale: float = 1.0
    noise: float = 0.0
    word_dropout: float = 0.0
    average: float = 0.0
    half: bool = False
    pairs: int = 6000
    eval_every: int = 250
    fault: str = ""


def corpus(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Queries (count, SHORT) and documents (count, LONG) as word numbers from 1, 0 pads.

    A document has three topics, of which its query takes words of another half of the vocabulary.
    """
    topics = np.stack([rng.choice(TOPICS, 3, replace=False) for _ in range(count)])

    def words(length: int, shift: int, noise: float) -> np.ndarray:
        topic = np.take_along_axis(topics, rng.integers(3, size=(count, length)), 1)
        word = topic * OF_TOPIC + rng.integers(OF_TOPIC, size=(count, length))
        other = rng.integers(VOCABULARY, size=(count, length))
        word = np.where(rng.random((count, length)) < noise, other, word) + shift + 1
        kept = np.arange(length) < rng.integers(length // 2 + 1, length + 1, size=(count, 1))
        return np.where(kept, word, PAD)

    return words(SHORT, VOCABULARY, 0.05), words(LONG, 0, 0.1)


class Tower(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.cfg = cfg
        self.embedding = nn.Embedding(2 * VOCABULARY + 1, cfg.dim, padding_idx=PAD)
        inner = cfg.hidden or cfg.dim
        self.proj = nn.Sequential(
            nn.Linear(cfg.dim, inner), nn.ReLU(), nn.Dropout(cfg.dropout), nn.Linear(inner, cfg.dim)
        )

    def forward(self, words: Tensor) -> Tensor:
        cfg = self.cfg
        x = self.embedding(words)
        here = (words != PAD).unsqueeze(-1)
        if cfg.fault == "mask turned":
            here = ~here
        if cfg.fault == "first word":
            pooled = x[:, 0]
        elif cfg.pooling == "sum":
            pooled = (x * here).sum(1) / 3
        elif cfg.fault == "empty document":
            pooled = (x * here).sum(1) / here.sum(1)
        else:
            pooled = (x * here).sum(1) / here.sum(1).clamp(min=1)
        out: Tensor = pooled + self.proj(pooled)
        return F.normalize(out, dim=-1)


class TwoTower(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.query = Tower(cfg)
        self.document = self.query if cfg.shared else Tower(cfg)
        self.log_scale = nn.Parameter(torch.tensor(1 / cfg.temperature).log(), requires_grad=False)

    def forward(self, queries: Tensor, documents: Tensor) -> Tensor:
        found, wanted = self.query(queries), self.document(documents)
        scores: Tensor = found @ wanted.T * self.log_scale.exp()
        return scores


def contrastive(scores: Tensor, cfg: Config) -> Tensor:
    """How far each query's own document is from being the first of the batch."""
    own = torch.arange(len(scores))
    if cfg.fault == "the first is right":
        own = torch.zeros_like(own)
    if cfg.loss == "only positives":
        return -scores.diagonal().mean()
    if cfg.loss == "logarithm":
        return -torch.log(scores.softmax(1).diagonal()).mean()
    if cfg.loss == "probabilities":
        return F.cross_entropy(scores.softmax(1), own)
    loss = F.cross_entropy(scores, own, label_smoothing=cfg.smoothing)
    if cfg.symmetric:
        loss = (loss + F.cross_entropy(scores.T, own)) / 2
    return loss


def recall_at(query: np.ndarray, document: np.ndarray, k: int = NEAREST) -> float:
    """The share of queries whose own document is among the k nearest."""
    scores = query @ document.T
    own = np.diagonal(scores)[:, None]
    return float(((scores >= own).sum(1) <= k).mean())


def embed(model: TwoTower, queries: np.ndarray, documents: np.ndarray) -> Any:
    model.eval()
    with torch.no_grad():
        found = model.query(torch.from_numpy(queries)).numpy()
        wanted = model.document(torch.from_numpy(documents)).numpy()
    model.train()
    return found, wanted


def batches(count: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    while True:
        order = rng.permutation(count)
        for at in range(0, count - size + 1, size):
            yield order[at : at + size]


def optimizer_of(model: TwoTower, cfg: Config) -> Any:
    parameters: Any = [p for p in model.parameters() if p.requires_grad]
    if cfg.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, cfg.lr)
    if cfg.optimizer == "adamw":
        return torch.optim.AdamW(parameters, cfg.lr, weight_decay=cfg.weight_decay)
    return torch.optim.Adam(parameters, cfg.lr, weight_decay=cfg.weight_decay)


def factor(step: int, cfg: Config) -> float:
    share = step / cfg.steps
    if cfg.warmup:
        return min(1.0, (step + 1) / cfg.warmup) * (1 - 0.9 * share)
    if cfg.schedule == "cosine":
        return 0.5 * (1 + float(np.cos(np.pi * share))) + 1e-3
    return 1.0


def pairs_of(seed: int, cfg: Config) -> tuple[np.ndarray, ...]:
    """Queries and documents to train on, and those held out."""
    rng = np.random.default_rng(seed + 90)
    queries, documents = corpus(cfg.pairs, rng)
    held_queries, held_documents = corpus(HELD, rng)
    if cfg.fault == "off by one":
        documents = np.roll(documents, 1, axis=0)
    if cfg.fault == "empty document":
        documents[17] = PAD
    if cfg.fault == "same question many times":
        queries, documents = (part[:40].repeat(cfg.pairs // 40, 0) for part in (queries, documents))
    if cfg.fault == "words unknown":
        queries = np.where(queries == PAD, PAD, 1)
    if cfg.noise:
        wrong = np.flatnonzero(rng.random(len(queries)) < cfg.noise)
        documents[wrong] = documents[rng.permutation(wrong)]
    return queries, documents, held_queries, held_documents


def train(seed: int, hook: Any, **options: Any) -> float:
    begin(seed)
    cfg = Config(**options)
    queries, documents, held_queries, held_documents = pairs_of(seed, cfg)
    rng = np.random.default_rng(seed)
    model = TwoTower(cfg)
    optimizer = optimizer_of(model, cfg)
    shadow = averages.AveragedModel(
        model, multi_avg_fn=averages.get_ema_multi_avg_fn(cfg.average or 0.9)
    )
    rows = batches(len(documents), cfg.batch_size, rng)
    hook.torch(model)
    model.train()
    for step in range(cfg.steps):
        for group in optimizer.param_groups:
            group["lr"] = cfg.lr * factor(step, cfg)
        chosen = next(rows)
        q, d = torch.from_numpy(queries[chosen]), torch.from_numpy(documents[chosen])
        if cfg.fault == "shuffled for each":
            d = d[torch.randperm(len(d))]
        if cfg.word_dropout:
            d = torch.where(torch.rand(d.shape) < cfg.word_dropout, PAD, d)
        with torch.autocast("cpu", torch.bfloat16, enabled=cfg.half):
            scores = model(q, d)
        loss: Any = contrastive(scores.float(), cfg) * cfg.scale
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if cfg.average:
            shadow.update_parameters(model)
        if cfg.eval_every and step % cfg.eval_every == cfg.eval_every - 1:
            recall_at(*embed(model, held_queries, held_documents))
    last: Any = shadow.module if cfg.average else model
    found, wanted = embed(last, held_queries, held_documents)
    if not (np.isfinite(found).all() and np.isfinite(wanted).all()):
        return float("nan")
    chance = NEAREST / HELD
    return (recall_at(found, wanted) - chance) / (1 - chance)


CASES = cases(
    "two-tower search",
    train,
    {
        "plain": {},
        "one tower for both": {"shared": True},
        "sum of words": {"pooling": "sum"},
        "both directions": {"symmetric": True},
        "label smoothing": {"smoothing": 0.05},
        "batch of 512": {"batch_size": 512, "steps": 500, "lr": 5e-3},
        "Adagrad": {"optimizer": "adagrad", "lr": 0.1},
        "warm-up": {"warmup": 200, "lr": 4e-3},
        "cosine": {"schedule": "cosine", "lr": 4e-3},
        "AdamW": {"optimizer": "adamw", "weight_decay": 0.05},
        "wrong clicks": {"noise": 0.05},
        "words dropped": {"word_dropout": 0.1},
        "dropout": {"dropout": 0.1, "hidden": 64},
        "loss x 10000": {"scale": 1e4},
        "moving average": {"average": 0.99},
        "bfloat16": {"half": True},
        "no evaluation": {"eval_every": 0},
    },
    {
        "off by one": ("no-skill overfit", {"fault": "off by one"}),
        "shuffled for each": ("no-skill collapse", {"fault": "shuffled for each"}),
        "words unknown": ("inputs no-skill collapse", {"fault": "words unknown"}),
        "empty document": ("not-finite", {"fault": "empty document"}),
        "same question many times": ("overfit", {"fault": "same question many times"}),
        "150 pairs": ("overfit", {"pairs": 150}),
        "the first is right": ("no-skill collapse", {"fault": "the first is right"}),
        "only positives": ("collapse no-skill", {"loss": "only positives"}),
        "softmax twice": ("probabilities slow worse", {"loss": "probabilities", "lr": 1e-4}),
        "logarithm of nothing": ("not-finite", {"loss": "logarithm", "temperature": 0.002}),
        "temperature multiplied": ("slow no-skill", {"temperature": 20.0, "lr": 2e-4}),
        "mask turned": ("inputs no-skill collapse", {"fault": "mask turned"}),
        "the first word alone": ("inputs worse overfit", {"fault": "first word"}),
    },
)
