"""Two processes train one model together, with gloo; each has a hook of its own."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from benchmarks.detection.families.kit import begin, class_skill, dense, normal
from torch import nn

from benchmarks.detection.case import cases

SIZE, KINDS = 16, 5


@dataclass(frozen=True)
class Job:
    seed: int
    folder: Path
    options: dict[str, Any]
    rate: float = 3e-3
    steps: int = 600
    batch: int = 32
    fault: str = ""
    skewed: bool = False
    unequal: bool = False
    schedule: bool = False


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


def worker(rank: int, job: Job, found: Any) -> None:
    from benchmarks.detection.run_hook import RunHook

    os.environ["RANK"] = str(rank)
    begin(job.seed)
    dist.init_process_group("gloo")
    x, held = normal(6000, SIZE, seed=job.seed + 170), normal(1000, SIZE, seed=job.seed + 171)
    mixing, kinds = normal(SIZE, 5, seed=63), normal(5, KINDS, seed=64)
    y, held_y = ((torch.tanh(part @ mixing / 2) @ kinds).argmax(1) for part in (x, held))
    if job.skewed:  # of two classes the first process has more, of the others the second
        order = (y + 3 * torch.rand(len(y))).argsort()
        x, y = x[order], y[order]
        x, y = x[rank * 3000 :][:3000], y[rank * 3000 :][:3000]
    else:
        x, y = x[rank::2], y[rank::2]
    spoiled = (rank == 1 and job.fault.startswith("one")) or job.fault.startswith("all")
    if spoiled and "shuffled" in job.fault:
        y = y[torch.randperm(len(y))]
    if spoiled and "scaled" in job.fault:
        x = x * 255
    if spoiled and "constant" in job.fault:
        x = torch.zeros_like(x)
    if job.fault == "own start":
        torch.manual_seed(job.seed + rank)
    model = dense([SIZE, 48, 48, KINDS])
    apart = job.fault in ("own start", "own gradients", "one stays behind")
    wrapped: Any = model if apart else nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), job.rate)
    criterion = nn.CrossEntropyLoss()
    hook = RunHook(job.folder, job.options.get("save_interval"))
    hook.torch(wrapped)
    draw = torch.Generator().manual_seed(job.seed + 10 * rank)
    size = job.batch * (2 if job.unequal and rank else 1)
    for step in range(job.steps):
        rows = torch.randint(len(x), (size,), generator=draw)
        loss = criterion(wrapped(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        if job.schedule:
            optimizer.param_groups[0]["lr"] = job.rate * min(1.0, (step + 1) / 100)
        if job.fault == "one stays behind" and rank == 1 and step > 50:
            continue
        optimizer.step()
    dist.barrier()
    if rank == 1:
        hook.close()
    dist.barrier()
    hook.close()
    with torch.no_grad():
        skill = torch.tensor(class_skill(model(held), held_y))
    dist.all_reduce(skill, dist.ReduceOp.MIN)
    if rank == 0:
        found.put(skill.item())
    dist.destroy_process_group()


CASES = cases(
    "two processes",
    train,
    {
        "plain": {},
        "classes unlike": {"skewed": True, "steps": 800},
        "batches unlike": {"unequal": True},
        "warm-up": {"schedule": True},
    },
    {
        "one sees shuffled labels": ("workers no-skill", {"fault": "one shuffled"}),
        "one sees inputs x 255": ("workers inputs worse", {"fault": "one scaled"}),
        "one sees nothing": ("workers inputs", {"fault": "one constant"}),
        "all labels shuffled": ("no-skill", {"fault": "all shuffled"}),
        "own starts, no exchange": ("workers", {"fault": "own start"}),
        "one stays behind": ("workers unbound slow", {"fault": "one stays behind"}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
    certain=("one sees shuffled labels", "own starts, no exchange", "one sees inputs x 255",
             "one sees nothing"),
    seeds=(1, 1),
)  # fmt: skip
