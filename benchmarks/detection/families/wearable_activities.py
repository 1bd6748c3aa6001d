"""What somebody does, from accelerations at the wrist: DistributedDataParallel in two processes.

Windows of three axes have gravity in any direction and the rhythm of an activity; convolutions over
time, a DistributedSampler. The skill is the accuracy on other windows, of the worse process.
"""

from __future__ import annotations

import copy
import os
import socket
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

from benchmarks.detection.case import cases

LENGTH, KINDS = 48, 6


def windows(count: int, seed: int) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    rhythm = torch.tensor([0.0, 1.0, 1.4, 2.0, 2.8, 1.0])[kind]
    rhythm = rhythm * (1 + 0.06 * torch.randn(count, generator=draw))
    force = torch.tensor([[0.02, 0.3, 0.5, 0.9, 0.7, 0.4], [0.0, 0.1, 0.05, 0.4, 0.1, 0.6]])[
        :, kind
    ]
    time = torch.arange(LENGTH) / 16 + torch.rand(count, 1, generator=draw)
    phase = 2 * torch.pi * time * rhythm[:, None]
    swing = force[0, :, None] * phase.sin() + force[1, :, None] * (2 * phase).cos()
    axis = nn.functional.normalize(torch.randn(count, 3, 1, generator=draw), dim=1)
    gravity = nn.functional.normalize(torch.randn(count, 3, 1, generator=draw), dim=1)
    noise = 0.25 * torch.randn(count, 3, LENGTH, generator=draw)
    return TensorDataset(gravity + axis * swing[:, None] + noise, kind)


@dataclass(frozen=True)
class Job:
    seed: int
    folder: Path
    options: dict[str, Any]
    epochs: int = 7
    batch: int = 32
    rate: float = 3e-3
    optimizer: str = "adam"
    accumulate: int = 1
    warmup: int = 1
    smoothing: float = 0.0
    dropout: float = 0.0
    own_people: bool = False
    first_evaluates: bool = False
    fault: str = ""


def network(job: Job) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(3, 24, 7, stride=2, padding=3), nn.BatchNorm1d(24), nn.ReLU(),
        nn.Conv1d(24, 32, 5, stride=2, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
        nn.Conv1d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(),
        nn.Dropout(job.dropout), nn.Linear(32, KINDS),
    )  # fmt: skip


def train(seed: int, hook: Any, **options: Any) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2")
    found = mp.get_context("spawn").SimpleQueue()
    mp.spawn(worker, (Job(seed, hook.folder, dict(hook.options), **options), found), nprocs=2)
    skill: float = found.get()
    return skill


def worker(rank: int, job: Job, found: Any) -> None:
    from benchmarks.detection.run_hook import RunHook

    os.environ["RANK"] = str(rank)
    begin(job.seed)
    dist.init_process_group("gloo")
    known, held, test = (windows(n, 3 * job.seed + i) for i, n in enumerate((3200, 320, 1000)))
    sampler: Any = None
    if job.own_people:  # the first process has those who hold the arm up
        order = known.tensors[0].mean(2)[:, 0].argsort().tolist()
        loader = DataLoader(Subset(known, order[rank * 1600 :][:1600]), job.batch, shuffle=True)
    else:
        if job.fault == "files by activity":
            known = TensorDataset(*(part[known.tensors[1].argsort()] for part in known.tensors))
        sampler = DistributedSampler(known, shuffle=job.fault != "files by activity")
        loader = DataLoader(known, job.batch, sampler=sampler, drop_last=True)
    model = network(job)
    trained = copy.deepcopy(model) if job.fault == "optimizer of a copy" else model
    ddp = DistributedDataParallel(model)
    optimizer: Any = {
        "adam": lambda: torch.optim.Adam(trained.parameters(), job.rate),
        "momentum": lambda: torch.optim.SGD(trained.parameters(), job.rate, momentum=0.9),
        "zero": lambda: ZeroRedundancyOptimizer(
            trained.parameters(), optimizer_class=torch.optim.Adam, lr=job.rate
        ),
    }[job.optimizer]()
    criterion = nn.CrossEntropyLoss(label_smoothing=job.smoothing)
    hook = RunHook(job.folder, job.options.get("save_interval"))
    hook.torch(ddp)
    names = torch.arange(KINDS)
    if job.fault == "own order of names" and rank:
        names = names.roll(2)
    forward: Any = ddp.module if job.fault == "called past the wrapper" else ddp
    step = 0
    for epoch in range(job.epochs):
        if sampler:
            sampler.set_epoch(0 if job.fault == "files by activity" else epoch)
        ddp.train()
        for x, y in loader:
            step += 1
            last = step % job.accumulate == 0
            with nullcontext() if last else ddp.no_sync():
                loss = criterion(forward(x), names[y])
                (loss / job.accumulate).backward()
            optimizer.param_groups[0]["lr"] = job.rate * min(1.0, step / job.warmup)
            if last:
                optimizer.step()
                if job.fault != "gradients kept":
                    optimizer.zero_grad()
        if rank == 0 or not job.first_evaluates:
            accuracy(model, held)
    dist.barrier()
    if rank == 1:
        hook.close()
    dist.barrier()
    hook.close()
    skill = torch.tensor(accuracy(model, test))
    dist.all_reduce(skill, dist.ReduceOp.MIN)
    if rank == 0:
        found.put(skill.item())
    dist.barrier()
    os._exit(0)  # threads of gloo may wait for each other where the group is freed


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    x, y = data.tensors
    model.eval()
    with torch.no_grad():
        scores: Tensor = torch.cat([model(part) for part in x.split(160)])
    return class_skill(scores, y)


CASES = cases(
    "wearable activities",
    train,
    {
        "plain": {},
        "states of the optimizer shared out": {"optimizer": "zero"},
        "accumulates without exchange": {"accumulate": 2, "batch": 16},
        "each process its own people": {"own_people": True, "epochs": 10},
        "momentum with warm-up": {
            "optimizer": "momentum",
            "rate": 0.05,
            "warmup": 80,
            "epochs": 10,
        },
        "label smoothing and dropout": {"smoothing": 0.1, "dropout": 0.2, "epochs": 10},
        "the first process evaluates": {"first_evaluates": True},
    },
    {
        "own order of names": ("workers no-skill worse", {"fault": "own order of names"}),
        "called past the wrapper": ("workers", {"fault": "called past the wrapper"}),
        "files by activity": ("order worse", {"fault": "files by activity"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
    },
    certain=("called past the wrapper",),
)
