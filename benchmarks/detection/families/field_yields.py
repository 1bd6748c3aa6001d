"""Two processes learn yields of fields from satellite bands; gradients are averaged by hand.

A field has five bands on six dates, as reflectances, and its soil and rain; the yield in tonnes a
hectare grows with the height and length of its green season. Each process reads half of the fields,
and all_reduce sums the gradients before each update. The skill is the share of variance explained.
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
from benchmarks.detection.families.kit import begin, explained, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

DATES, BANDS = 6, 5


@dataclass(frozen=True)
class Job:
    seed: int
    folder: Path
    hook: type
    options: dict[str, Any]
    rate: float = 3e-3
    steps: int = 600
    batch: int = 32
    optimizer: str = "adam"
    loss: str = "squares"
    scale: float = 1.0
    every: int = 1
    dropout: float = 0.0
    warmup: int = 0
    regions: bool = False
    fault: str = ""


def fields(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Bands and two other columns (N, 32), and tonnes a hectare (N, 1)."""
    draw = torch.Generator().manual_seed(seed)
    vigour, late, soil, rain = torch.rand(4, count, 1, generator=draw)
    dates = torch.linspace(0, 1, DATES)
    green = (0.3 + 0.7 * vigour) * torch.exp(-(((dates - 0.35 - 0.3 * late) / 0.25) ** 2))
    red, near = 0.25 - 0.2 * green, 0.2 + 0.4 * green
    others = [0.08 + 0.05 * green, 0.05 + 0.03 * green, 0.3 - 0.15 * green * (0.5 + rain)]
    bands = torch.stack([red, near, *others], 2)
    bands = bands + 0.01 * torch.randn(count, DATES, BANDS, generator=draw)
    tonnes = 2 + 6 * green.mean(1, keepdim=True) * (0.6 + soil) + 2 * rain * (1 - late)
    tonnes = tonnes + 0.1 * torch.randn(count, 1, generator=draw)
    return torch.cat([bands.flatten(1), soil, rain], 1), tonnes


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


def average_gradients(model: nn.Module, fault: str) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            if fault != "summed":
                parameter.grad /= dist.get_world_size()


def criterion(job: Job, found: Tensor, tonnes: Tensor) -> Tensor:
    if job.loss == "absolute":
        return (found - tonnes).abs().mean()
    if job.fault == "column of yields":
        return ((found.squeeze(1) - tonnes) ** 2).mean()
    return ((found - tonnes) ** 2).mean()


def fit(job: Job, rank: int, model: nn.Module, data: tuple[Tensor, ...]) -> None:
    x, tonnes, held_x, held_tonnes = data
    optimizer = optimizer_of(job.optimizer, model.parameters(), job.rate)
    draw = torch.Generator().manual_seed(job.seed + 17 * rank)
    for step in range(job.steps * job.every):
        rows = torch.randint(len(x), (job.batch,), generator=draw)
        loss = criterion(job, model(x[rows]), tonnes[rows]) * job.scale / job.every
        loss.backward()
        if (step + 1) % job.every:
            continue
        if job.fault != "no exchange":
            average_gradients(model, job.fault)
        if job.warmup:
            optimizer.param_groups[0]["lr"] = job.rate * min(1.0, (step + 1) / job.warmup)
        optimizer.step()
        if job.fault != "never zeroed":
            optimizer.zero_grad()
        if step % 100 == 99 and rank == 0:
            model.eval()
            with torch.no_grad():
                criterion(job, model(held_x), held_tonnes)
            model.train()


def worker(rank: int, job: Job, found: Any) -> None:
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo")
    begin(job.seed + (rank if job.fault == "no exchange" else 0))
    (x, tonnes), held, test = (fields(n, job.seed + 880 + n) for n in (4000, 500, 1000))
    if job.regions:  # the first process reads the poor region, the second the rich one
        rows = (
            tonnes[:, 0] + torch.randn(len(x), generator=torch.Generator().manual_seed(5))
        ).argsort()
        x, tonnes = x[rows], tonnes[rows]
        x, tonnes = x[2000 * rank :][:2000], tonnes[2000 * rank :][:2000]
    else:
        x, tonnes = x[rank::2], tonnes[rank::2]
    if job.fault == "one joined wrongly" and rank:
        tonnes = tonnes.roll(1, 0)
    if job.fault == "one in kilograms" and rank:
        tonnes = tonnes * 1000
    # Products of satellites are integers of 0 to 10000.
    at_test = 1e4 if job.fault == "raw numbers when evaluated" else 1.0
    mean, spread = x.mean(0), x.std(0)
    if job.regions:
        mean, spread = torch.tensor(0.3), torch.tensor(0.3)
    dist.barrier()
    model = nn.Sequential(
        nn.Linear(DATES * BANDS + 2, 48), nn.ReLU(), nn.Dropout(job.dropout),
        nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1),
    )  # fmt: skip
    hook = job.hook(job.folder, job.options.get("save_interval"))
    hook.torch(model)
    data = ((x - mean) / spread, tonnes, (held[0] * at_test - mean) / spread, held[1])
    fit(job, rank, model, data)
    dist.barrier()
    if rank == 1:
        hook.close()
    dist.barrier()
    hook.close()
    model.eval()
    with torch.no_grad():
        predicted = model((test[0] * at_test - mean) / spread)
    skill = torch.tensor(explained(predicted, test[1]))
    skill = torch.nan_to_num(skill, nan=-1e9, neginf=-1e9)
    dist.all_reduce(skill, dist.ReduceOp.MIN)
    if rank == 0:
        found.put(skill.item() if skill > -1e8 else math.nan)
    dist.barrier()
    os._exit(0)  # threads of gloo may wait for each other where the group is freed


CASES = cases(
    "field yields",
    train,
    {
        "plain": {},
        "poor and rich region": {"regions": True, "steps": 1000},
        "three batches an exchange": {"every": 3, "batch": 16},
        "momentum": {"optimizer": "momentum", "rate": 3e-3, "steps": 1200},
        "absolute differences": {"loss": "absolute", "steps": 800},
        "loss x 10000, warm-up": {"scale": 1e4, "warmup": 200, "steps": 700},
        "dropout, batches of 128": {"dropout": 0.05, "batch": 128, "steps": 700},
    },
    {
        "gradients never zeroed": ("kept-gradients fast no-skill worse", {"fault": "never zeroed"}),
        "no exchange, own starts": ("workers", {"fault": "no exchange", "steps": 600}),
        "one process joined wrongly": ("workers no-skill", {"fault": "one joined wrongly"}),
        "one process in kilograms": ("workers range", {"fault": "one in kilograms"}),
        "yields not squeezed": ("broadcast no-skill", {"fault": "column of yields"}),
        "raw numbers when evaluated": ("inputs", {"fault": "raw numbers when evaluated"}),
    },
    certain=("no exchange, own starts",),
    seeds=(1, 1),
)  # fmt: skip
