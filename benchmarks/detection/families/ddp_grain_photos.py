"""Kinds of grain in photos of kernels, by two processes with DistributedDataParallel and gloo.

Five kinds differ in length, width, crease and shade, and lie turned in any direction. The skill is
the accuracy on other photos above that of the most frequent kind, of the worse process.
"""

from __future__ import annotations

import math
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from benchmarks.detection.case import cases

SIDE, KINDS = 12, 5
SHAPES = torch.tensor([[3.2, 1.3, 0.0], [4.8, 1.2, 0.0], [3.2, 2.3, 0.0], [3.3, 1.6, 0.9],
                       [4.8, 1.9, 0.9]])  # fmt: skip
"""Half the length, half the width, and the depth of the crease, of each kind."""


@dataclass(frozen=True)
class Job:
    seed: int
    folder: Path
    hook: type
    options: dict[str, Any]
    rate: float = 2e-3
    epochs: int = 8
    batch: int = 16
    count: int = 3000
    optimizer: str = "adam"
    schedule: str = "constant"
    decay: float = 0.0
    clip: float = 0.0
    smoothing: float = 0.0
    accumulate: int = 1
    half: bool = False
    average: bool = False
    fault: str = ""


def photos(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Grey values (count, 1, SIDE, SIDE) from 0 to 255, and kinds."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    turn, left, down, light = torch.rand(4, count, 1, 1, generator=draw)
    grown = 1 + 0.07 * torch.randn(count, 2, 1, 1, generator=draw)
    long, wide, crease = SHAPES[kind].T[..., None, None]
    place = torch.arange(SIDE) - SIDE / 2 + 0.5
    x, y = place[None, None, :] - 2 * (left - 0.5), place[None, :, None] - 2 * (down - 0.5)
    angle = math.pi * turn
    along, aside = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    inside = (along / (long * grown[:, 0])) ** 2 + (aside / (wide * grown[:, 1])) ** 2
    kernel = ((1 - inside) * 4).sigmoid() * (1 - crease * torch.exp(-((aside / 0.5) ** 2)))
    grey = (40 + 180 * kernel) * (0.7 + 0.3 * light)
    grey = grey + 6 * torch.randn(grey.shape, generator=draw)
    return grey.clamp(0, 255)[:, None], kind


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24 * 9, 32), nn.ReLU(), nn.Linear(32, KINDS),
    )  # fmt: skip


def train(seed: int, hook: Any, **options: Any) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2")
    job = Job(seed, hook.folder, type(hook), dict(hook.options), **options)
    found = mp.get_context("spawn").SimpleQueue()
    mp.spawn(worker, (job, found), nprocs=2)
    skill: float = found.get()
    return skill


def loaders(job: Job, rank: int) -> tuple[DataLoader[Any], DataLoader[Any], Any]:
    (x, kind), (held_x, held_kind) = photos(job.count, job.seed + 810), photos(500, job.seed + 811)
    if job.fault == "folders listed in another order" and rank == 1:
        kind = (kind + 2) % KINDS
    if job.fault == "shuffled apart":
        kind = kind[torch.randperm(len(kind))]
    rows = TensorDataset(x / 255 - 0.4, kind)
    after = held_x if job.fault == "not scaled when evaluated" else held_x / 255 - 0.4
    sampler: Any = DistributedSampler(rows, 2, rank, seed=job.seed)
    training = DataLoader(rows, job.batch, sampler=sampler, drop_last=job.count > 200)
    return training, DataLoader(TensorDataset(after, held_kind), 250), sampler


def train_epoch(
    job: Job, model: nn.Module, loader: DataLoader[Any], steering: Any, plan: Any, mean: Any
) -> None:
    criterion = nn.CrossEntropyLoss(label_smoothing=job.smoothing)
    model.train()
    for number, (x, kind) in enumerate(loader, 1):
        with torch.autocast("cpu", torch.bfloat16, enabled=job.half):
            scores = model(x)
        if job.fault == "softmax over the batch":
            scores = scores.softmax(0)
        loss = criterion(scores.float(), kind)
        (loss / job.accumulate).backward()
        if number % job.accumulate:
            continue
        if job.clip:
            nn.utils.clip_grad_norm_(model.parameters(), job.clip)
        steering.step()
        plan.step()
        if job.fault != "gradients kept":
            steering.zero_grad()
        if mean is not None:
            mean.update_parameters(model.module)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader[Any]) -> tuple[Tensor, Tensor, Tensor]:
    """The loss as a mean of both processes, and this one's scores and labels."""
    model.eval()
    pairs = [(model(x), kind) for x, kind in loader]
    scores, kinds = (torch.cat(part) for part in zip(*pairs, strict=True))
    loss = nn.functional.cross_entropy(scores, kinds)
    dist.all_reduce(loss)
    return loss / 2, scores, kinds


def worker(rank: int, job: Job, found: Any) -> None:
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo")
    begin(job.seed)
    training, held, sampler = loaders(job, rank)
    raw = network()
    model = DistributedDataParallel(raw)
    mean = torch.optim.swa_utils.AveragedModel(
        raw, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98), use_buffers=True
    ) if job.average else None  # fmt: skip
    hook = job.hook(job.folder, job.options.get("save_interval"))
    hook.torch(model)
    steering = optimizer_of(job.optimizer, raw.parameters(), job.rate, job.decay)
    plan = scheduler_of(steering, job.schedule, job.epochs * len(training) // job.accumulate)
    for epoch in range(job.epochs):
        sampler.set_epoch(epoch)
        train_epoch(job, model, training, steering, plan, mean)
        if ((epoch + 1) % 2 == 0 and job.epochs < 100) or epoch % 40 == 0:
            evaluate(raw, held)
    dist.barrier()
    if rank == 1:
        hook.close()
    dist.barrier()
    hook.close()
    _, scores, kinds = evaluate(mean if mean is not None else raw, held)
    skill = torch.tensor(class_skill(scores, kinds)).nan_to_num(-1e9)
    dist.all_reduce(skill, dist.ReduceOp.MIN)
    if rank == 0:
        found.put(skill.item() if skill > -1e8 else math.nan)
    dist.barrier()
    dist.destroy_process_group()


CASES = cases(
    "ddp grain photos",
    train,
    {
        "plain": {},
        "warm-up, AdamW": {"schedule": "warmup", "optimizer": "adamw", "decay": 0.1, "rate": 4e-3},
        "batch of 100, one cycle": {
            "batch": 100, "schedule": "one cycle", "rate": 8e-3, "epochs": 12,
        },
        "accumulated batches of eight": {"batch": 8, "accumulate": 4, "epochs": 6},
        "momentum, clipped": {"optimizer": "momentum", "rate": 0.02, "clip": 1.0},
        "average of weights": {"average": True},
        "bfloat16, labels smoothed": {"half": True, "smoothing": 0.1},
    },
    {
        "folders listed in another order": (
            "workers no-skill", {"fault": "folders listed in another order"},
        ),
        "shuffled apart": ("no-skill overfit", {"fault": "shuffled apart"}),
        "not scaled when evaluated": (
            "inputs worse overfit", {"fault": "not scaled when evaluated"},
        ),
        "gradients kept": (
            "kept-gradients fast no-skill", {"fault": "gradients kept", "optimizer": "momentum"},
        ),
        "rate of 1": ("fast no-skill dead collapse", {"rate": 1.0}),
        "twenty photos": ("overfit", {"count": 20, "batch": 10, "epochs": 400}),
    },
    seeds=(1, 1),
)  # fmt: skip
