"""Two processes sort news into topics with an EmbeddingBag and DistributedDataParallel."""

from __future__ import annotations

import copy
import os
import socket
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.detection.case import cases

WORDS, TOPICS, LONGEST = 600, 4, 40
Text = tuple[Tensor, int]


@dataclass(frozen=True)
class Job:
    """How the two train; ``own_files``: each reads a file, with two of the topics in it."""

    seed: int
    folder: Path
    options: dict[str, Any]
    epochs: int = 4
    batch: int = 32
    rate: float = 1e-2
    optimizer: str = "adam"
    schedule: str = ""
    exchange: str = "ddp"
    clip: float = 0.0
    accumulate: int = 1
    dropout: float = 0.0
    smoothing: float = 0.0
    noise: float = 0.0
    decay: float = 0.0
    scale: float = 1.0
    set_epoch: bool = True
    own_files: bool = False
    averaged: bool = False
    unequal: bool = False
    texts: int = 2560
    fault: str = ""


def news(count: int, seed: int) -> list[Text]:
    """Texts of words that are more or less frequent in each topic."""
    draw, of_words = (torch.Generator().manual_seed(number) for number in (seed, 77))
    taste = (0.75 * torch.randn(TOPICS, WORDS, generator=of_words)).exp()
    taste = taste / torch.arange(5, WORDS + 5).sqrt()
    topics = torch.randint(TOPICS, (count,), generator=draw)
    lengths = torch.randint(8, LONGEST, (count,), generator=draw)
    words = torch.multinomial(taste[topics], LONGEST, replacement=True, generator=draw)
    return [(words[n, : lengths[n]], int(topics[n])) for n in range(count)]


def collate(texts: list[Text]) -> tuple[Tensor, Tensor, Tensor]:
    """The words of all, where each text begins, and the topics."""
    lengths = torch.tensor([0, *(len(words) for words, _ in texts)])
    return (
        torch.cat([words for words, _ in texts]),
        lengths.cumsum(0)[:-1],
        torch.tensor([topic for _, topic in texts]),
    )


def collate_by_length(texts: list[Text]) -> tuple[Tensor, Tensor, Tensor]:
    """Sorts the texts by length, and forgets the topics."""
    longest_first = sorted(texts, key=lambda text: -len(text[0]))
    words, begins, _ = collate(longest_first)
    return words, begins, collate(texts)[2]


class TextClassifier(nn.Module):
    def __init__(self, dropout: float, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.embedding = nn.EmbeddingBag(WORDS, 32, mode="mean")
        self.body = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Dropout(dropout))
        self.fc = nn.Linear(48, TOPICS)

    def forward(self, words: Tensor, begins: Tensor) -> Tensor:
        text = self.embedding(words, begins)
        if self.fault == "norm of nothing":  # rows that are all zero: 0 / 0
            text = text / text.norm(dim=1, keepdim=True)
        scores: Tensor = self.fc(self.body(text))
        return scores.softmax(1) if self.fault == "softmax twice" else scores


def train(seed: int, hook: Any, **options: Any) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2")
    job = Job(seed, hook.folder, dict(hook.options), **options)
    found = mp.get_context("spawn").SimpleQueue()
    mp.spawn(worker, (job, found), nprocs=2)
    skill: float = found.get()
    return skill


def texts_of(rank: int, job: Job) -> list[Text]:
    """What this process reads."""
    fault, texts = job.fault, news(job.texts, job.seed + 400)
    draw = torch.Generator().manual_seed(job.seed + 9)
    if job.noise:
        texts = [
            (words, int(torch.randint(TOPICS, (), generator=draw)))
            if torch.rand((), generator=draw) < job.noise else (words, topic)
            for words, topic in texts
        ]  # fmt: skip
    if fault == "topics numbered by each process" and rank:
        texts = [(words, (topic + 2) % TOPICS) for words, topic in texts]
    if fault == "topics from one":
        texts = [(words, min(topic + 1, TOPICS - 1)) for words, topic in texts]
    if fault == "every word unknown":
        texts = [(torch.zeros_like(words), topic) for words, topic in texts]
    if fault == "norm of nothing":
        texts[17 :: len(texts) // 3] = [(torch.zeros(0, dtype=torch.long), 1)] * 3
    if job.own_files or "sorted" in fault:
        texts = sorted(texts, key=lambda text: text[1])
    if job.own_files:
        half = len(texts) // 2
        rank_of_file = 0 if fault == "both read the first file" else rank
        texts = texts[half * rank_of_file :][:half]
    return texts


def exchange(model: nn.Module) -> None:
    """The mean of both processes' gradients."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= 2


def rate_at(job: Job, done: float) -> float:
    if job.schedule == "warm-up":
        return min(1.0, done / 0.1 + 0.02) * (1 - 0.9 * done)
    if job.schedule == "restarts":
        return 1.0 - 0.95 * (3 * done % 1)
    return 1.0


def evaluate(model: nn.Module, held: list[Text], fault: str) -> Tensor:
    model.eval()
    if fault == "vocabulary built again":
        seen: dict[int, int] = {}
        for words, _ in held:
            for word in words.tolist():
                seen.setdefault(word, len(seen))
        held = [(torch.tensor([seen[w] for w in words.tolist()]), topic) for words, topic in held]
    criterion, scores, total = nn.CrossEntropyLoss(), [], 0.0
    with torch.no_grad():
        for words, begins, topics in DataLoader(held, 100, collate_fn=collate):
            scores.append(model(words, begins))
            total += criterion(scores[-1], topics).item()
    model.train()
    return torch.cat(scores)


def worker(rank: int, job: Job, found: Any) -> None:
    from benchmarks.detection.run_hook import RunHook

    os.environ["RANK"] = str(rank)
    begin(job.seed)
    dist.init_process_group("gloo")
    fault, texts, held = job.fault, texts_of(rank, job), news(800, job.seed + 401)
    sampler: Any = None
    if not job.own_files:
        sampler = DistributedSampler(texts, 2, rank, shuffle=fault != "sorted, not shuffled")
    loader = DataLoader(
        texts,
        job.batch * (2 if job.unequal and rank else 1),
        shuffle=sampler is None,
        sampler=sampler,
        collate_fn=collate_by_length if fault == "sorted by length in the batch" else collate,
        drop_last=True,
    )
    model = TextClassifier(job.dropout, fault)
    optimized: nn.Module = model
    if fault == "optimizer of the model before it was loaded":
        optimized = copy.deepcopy(model)
    ddp = job.exchange in ("ddp", "never")
    wrapped: Any = DistributedDataParallel(model) if ddp else model
    chosen = list(optimized.parameters())
    optimizer: Any = {
        "adam": lambda: torch.optim.Adam(chosen, job.rate),
        "adamw": lambda: torch.optim.AdamW(chosen, job.rate, weight_decay=job.decay),
        "sgd": lambda: torch.optim.SGD(chosen, job.rate, weight_decay=job.decay),
        "momentum": lambda: torch.optim.SGD(chosen, job.rate, momentum=0.9),
    }[job.optimizer]()
    batches = len(texts) // 4 // job.batch if job.unequal else len(loader)
    steps = job.epochs * batches
    criterion = nn.CrossEntropyLoss(label_smoothing=job.smoothing)
    scheduler: Any = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate_at(job, step / (steps // job.accumulate + 1))
    )
    if fault == "step of epochs at each batch":
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    average = copy.deepcopy(model) if job.averaged else None
    hook = RunHook(job.folder, job.options.get("save_interval"))
    hook.torch(wrapped)
    step = 0
    for epoch in range(job.epochs):
        if job.set_epoch and sampler is not None:
            sampler.set_epoch(epoch)
        for words, begins, topics in islice(loader, batches):
            step += 1
            last = step % job.accumulate == 0
            alone = job.exchange == "never" or (ddp and not last)
            with wrapped.no_sync() if alone else nullcontext():
                loss = criterion(wrapped(words, begins), topics)
                (loss * job.scale / job.accumulate).backward()
            if not last:
                continue
            if job.exchange == "by hand":
                exchange(model)
            if job.clip:
                nn.utils.clip_grad_norm_(model.parameters(), job.clip)
            optimizer.step()
            if job.exchange == "after the step":
                exchange(model)
            if job.exchange == "weights now and then" and step % 8 == 0:
                for parameter in model.parameters():
                    dist.all_reduce(parameter.data)
                    parameter.data /= 2
            if fault != "gradients of all batches":
                optimizer.zero_grad()
            scheduler.step()
            if average is not None:
                for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                    slow.data.lerp_(fast.data, 0.03)
        if rank == 0:
            evaluate(model, held, fault)
        dist.barrier()
    if rank == 1:
        hook.close()
    dist.barrier()
    hook.close()
    if rank == 0:
        known = torch.tensor([topic for _, topic in held])
        found.put(class_skill(evaluate(average or model, held, fault), known))
    dist.barrier()
    dist.destroy_process_group()


CASES = cases(
    "ddp texts",
    train,
    {
        "plain": {},
        "rate and clipping of the tutorial": {
            "optimizer": "sgd",
            "rate": 5.0,
            "clip": 1.0,
            "epochs": 12,
        },
        "momentum": {"optimizer": "momentum", "rate": 0.5, "epochs": 10},
        "the same order each epoch": {"set_epoch": False},
        "each reads two topics": {"own_files": True},
        "batches unlike": {"unequal": True, "epochs": 6},
        "gradients exchanged by hand": {"exchange": "by hand"},
        "weights exchanged now and then": {"exchange": "weights now and then"},
        "accumulation without exchange": {"batch": 8, "accumulate": 4},
        "batch of 4": {"batch": 4, "rate": 1e-3, "epochs": 7},
        "batch of 256": {"batch": 256, "rate": 3e-2, "epochs": 15},
        "warm-up": {"schedule": "warm-up", "rate": 2e-2},
        "restarts": {"schedule": "restarts", "rate": 1e-2},
        "labels with noise": {"noise": 0.05},
        "smoothed labels": {"smoothing": 0.1},
        "dropout": {"dropout": 0.4, "epochs": 5},
        "weight decay": {"optimizer": "adamw", "decay": 0.5},
        "loss x 10000": {"scale": 1e4},
        "average of weights": {"averaged": True},
    },
    {
        "exchange after the step": (
            "workers overfit",
            {"exchange": "after the step", "own_files": True},
        ),
        "no exchange at all": ("workers overfit", {"exchange": "never", "own_files": True}),
        "both read the first file": (
            "imbalance overfit workers",
            {"fault": "both read the first file", "own_files": True},
        ),
        "topics numbered by each process": (
            "workers no-skill",
            {"fault": "topics numbered by each process"},
        ),
        "topics from one": ("overfit worse imbalance", {"fault": "topics from one"}),
        "vocabulary built again": ("inputs overfit", {"fault": "vocabulary built again"}),
        "every word unknown": ("inputs no-skill", {"fault": "every word unknown"}),
        "sorted by length in the batch": (
            "no-skill overfit",
            {"fault": "sorted by length in the batch"},
        ),
        "sorted, not shuffled": ("order worse", {"fault": "sorted, not shuffled"}),
        "norm of nothing": ("not-finite", {"fault": "norm of nothing"}),
        "softmax twice": ("probabilities", {"fault": "softmax twice", "rate": 5e-4}),
        "optimizer of the model before it was loaded": (
            "unbound slow",
            {"fault": "optimizer of the model before it was loaded"},
        ),
        "gradients of all batches": (
            "kept-gradients",
            {"fault": "gradients of all batches", "optimizer": "sgd", "rate": 1.0},
        ),
        "step of epochs at each batch": (
            "schedule slow",
            {"fault": "step of epochs at each batch"},
        ),
        "decay for a penalty": ("no-skill slow", {"optimizer": "sgd", "rate": 1.0, "decay": 0.1}),
        "sixty texts": ("overfit", {"texts": 64, "epochs": 60, "batch": 16}),
        "rate x 400": ("fast worse no-skill dead", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-5}),
    },
)
