"""Two processes learn the fares of taxi rides, with DistributedDataParallel and gloo."""

from __future__ import annotations

import math
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from benchmarks.detection.case import cases


@dataclass(frozen=True)
class Job:
    seed: int
    folder: Path
    hook: type
    options: dict[str, Any]
    rate: float = 4e-3
    steps: int = 1000
    batch: int = 32
    count: int = 6000
    optimizer: str = "adam"
    schedule: str = ""
    loss: str = "squares"
    unit: float = 1.0
    scale: float = 1.0
    clip: float = 0.0
    decay: float = 0.0
    noise: float = 0.0
    accumulate: int = 1
    half: bool = False
    start: str = ""
    fault: str = ""


def rides(count: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Columns from x, y, to x, y (km), hour, weekday, passengers, airport; and fares in dollars."""
    draw = np.random.default_rng(seed)
    places = draw.normal(0, 4, (count, 4))
    hour, weekday = draw.integers(0, 24, count), draw.integers(0, 7, count)
    people, airport = draw.integers(1, 6, count), draw.random(count) < 0.1
    far = np.abs(places[:, 0] - places[:, 2]) + np.abs(places[:, 1] - places[:, 3])
    busy = ((hour >= 16) & (hour < 20) & (weekday < 5)) * 1.0
    night = (hour >= 20) | (hour < 6)
    fare = 3 + (1.6 + 0.7 * busy) * far + 2.5 * night + 15 * airport
    fare *= 1 + 0.05 * draw.normal(size=count)
    x = np.column_stack([places, hour, weekday, people, airport]).astype(np.float32)
    return x, fare.astype(np.float32)


def prepared(x: np.ndarray[Any, Any], fault: str = "") -> Tensor:
    """Distances and hours as a practitioner would give them, of about unit size."""
    if fault == "raw seconds":
        raw = x.copy()
        raw[:, 4] = 1.7e9 + 3600 * raw[:, 4]
        return torch.as_tensor(raw)
    far = np.abs(x[:, :2] - x[:, 2:4]) / 5
    angle = 2 * np.pi * x[:, 4:5] / 24
    weekend = (x[:, 5:6] >= 5) * 1.0
    if fault == "logarithm of distance":
        far = np.log(np.abs(np.round(x[:, :2]) - np.round(x[:, 2:4])))
    if fault == "miles at test":
        far = far * 5 * 0.62
    columns = [x[:, :4] / 4, far, np.sin(angle), np.cos(angle), weekend, x[:, 6:7] / 5, x[:, 7:8]]
    return torch.as_tensor(np.hstack(columns).astype(np.float32))


def network(job: Job) -> nn.Sequential:
    units, inputs = 48, 8 if job.fault == "raw seconds" else 11
    layers: list[nn.Module] = []
    for size in (inputs, units):
        layers += [nn.Linear(size, units)]
        layers += [nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(units, 1))
    for module in model.modules():
        if isinstance(module, nn.Linear) and job.start == "dead" and module.out_features > 1:
            nn.init.constant_(module.bias, -15.0)
    return model


def criterion(job: Job, found: Tensor, fares: Tensor) -> Tensor:
    if job.fault != "flat targets":
        fares = fares.unsqueeze(1)
    functions = {"absolute": nn.L1Loss(), "huber": nn.HuberLoss(), "squares": nn.MSELoss()}
    loss: Tensor = functions[job.loss](found, fares)
    return loss


def rate_factor(job: Job, step: int) -> float:
    done = step / job.steps
    if job.schedule == "warm-up and cosine":
        return min(1.0, (step + 1) / 200) * 0.5 * (1 + math.cos(math.pi * done))
    if job.schedule == "restarts":
        return 0.5 * (1 + math.cos(math.pi * (4 * done % 1)))
    if job.schedule == "each batch":
        return float(0.9**step)
    return 1.0


def tables(job: Job, rank: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, fares = rides(job.count, job.seed + 40)
    held_x, held_fares = rides(1000, job.seed + 41)
    draw = np.random.default_rng(job.seed)
    if job.fault == "columns joined by row number":
        fares = fares[draw.permutation(len(fares))]
    if job.noise:
        fares = np.where(draw.random(len(fares)) < job.noise, draw.permutation(fares), fares)
    if job.fault == "one in cents" and rank == 1:
        fares = fares * 100
    at_test = job.fault if job.fault in ("raw seconds", "miles at test") else ""
    if job.fault == "logarithm of distance":
        at_test = job.fault
    train_fault = "" if job.fault == "miles at test" else job.fault
    return (
        prepared(x, train_fault), torch.as_tensor(fares / 10 * job.unit).float(),
        prepared(held_x, at_test), torch.as_tensor(held_fares / 10 * job.unit).float(),
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


def fit(job: Job, rank: int, model: nn.Module, raw: nn.Module, data: Any) -> None:
    x, fares, held_x, held_fares = data
    rows = TensorDataset(x, fares)
    sampler: Any = DistributedSampler(rows, 2, rank, seed=job.seed)
    loader = DataLoader(rows, job.batch, sampler=sampler, drop_last=len(rows) > 2 * job.batch)
    optimizer = optimizer_of(job.optimizer, raw.parameters(), job.rate, job.decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_factor(job, step))
    step = epoch = 0
    while step < job.steps:
        sampler.set_epoch(epoch)
        epoch += 1
        model.train()
        for number, (batch, wanted) in enumerate(loader, 1):
            with torch.autocast("cpu", torch.bfloat16, enabled=job.half):
                predicted = model(batch)
            loss = criterion(job, predicted.float(), wanted) * job.scale
            if job.fault == "loss as a number":
                loss = loss.detach() + 0 * predicted.sum()
            (loss / job.accumulate).backward()
            if number % job.accumulate:
                continue
            if job.clip:
                nn.utils.clip_grad_norm_(raw.parameters(), job.clip)
            stays = job.fault == "one stays behind" and rank == 1
            if not stays:
                optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            if step >= job.steps:
                break
        if epoch % 4 == 0:
            model.eval()
            with torch.no_grad():
                off = (raw(held_x)[:, 0] - held_fares).abs().mean()
            dist.all_reduce(off)


def worker(rank: int, job: Job, found: Any) -> None:
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo")
    begin(job.seed)
    data = tables(job, rank)
    raw = network(job)
    apart = job.fault == "one stays behind"
    model: nn.Module = raw if apart else DistributedDataParallel(raw)
    hook = job.hook(job.folder, job.options.get("save_interval"))
    hook.torch(model)
    fit(job, rank, model, raw, data)
    dist.barrier()
    if rank == 1:
        hook.close()
    dist.barrier()
    hook.close()
    raw.eval()
    with torch.no_grad():
        predicted = raw(data[2])[:, 0]
    left = ((predicted - data[3]) ** 2).mean() / data[3].var(unbiased=False)
    skill = torch.nan_to_num(1 - left, nan=-1e9, neginf=-1e9)
    dist.all_reduce(skill, dist.ReduceOp.MIN)
    if rank == 0:
        found.put(skill.item() if skill > -1e8 else math.nan)
    dist.destroy_process_group()


CASES = cases(
    "ddp taxi fares",
    train,
    {
        "plain": {},
        "batch of four": {"batch": 4, "rate": 1.5e-3, "steps": 2200},
        "batch of 256": {"batch": 256, "rate": 8e-3, "steps": 300},
        "momentum, clipped": {"optimizer": "momentum", "rate": 0.02, "clip": 1.0},
        "warm-up and cosine": {"schedule": "warm-up and cosine"},
        "restarts": {"schedule": "restarts", "rate": 6e-3},
        "absolute differences": {"loss": "absolute"},
        "Huber": {"loss": "huber"},
        "fares in cents": {"unit": 1000.0, "rate": 3e-2},
        "loss x 10000": {"scale": 1e4},
        "some fares wrong": {"noise": 0.05},
        "accumulation": {"batch": 16, "accumulate": 2},
        "bfloat16": {"half": True},
    },
    {
        "joined by row number": ("no-skill", {"fault": "columns joined by row number"}),
        "targets not unsqueezed": ("broadcast no-skill", {"fault": "flat targets"}),
        "one process in cents": ("workers range", {"fault": "one in cents"}),
        "one stays behind": ("workers unbound slow", {"fault": "one stays behind"}),
        "seconds since 1970": ("inputs worse fast", {"fault": "raw seconds"}),
        "other unit at test": ("inputs worse", {"fault": "miles at test"}),
        "logarithm of no distance": ("not-finite", {"fault": "logarithm of distance"}),
        "loss detached": ("no-gradient", {"fault": "loss as a number"}),
        "dead start": ("dead no-gradient collapse no-skill", {"start": "dead"}),
        "20 rides": ("overfit", {"count": 20}),
        "rate of 1": ("fast no-skill dead", {"rate": 1.0}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
        "decay at each batch": ("schedule slow", {"schedule": "each batch", "rate": 1e-3}),
        "decay of 3": ("collapse no-skill slow", {"decay": 3.0}),
    },
    seeds=(1, 1),
)
