"""Two processes train one model with DistributedDataParallel and gloo, each on half the samples."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import GRADIENTS, Loop, batches, optimizer_of, skill_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Samples, Training

APART = ("own starts", "gradients not exchanged", "one stays behind")


def train(t: Training, hook: RunHook) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2")
    found = mp.get_context("spawn").SimpleQueue()
    mp.spawn(worker, (t.again, hook.folder, hook.options, found), nprocs=2)
    skill: float = found.get()
    return skill


def worker(
    rank: int,
    again: Callable[[], Training],
    folder: Path,
    options: dict[str, Any],
    found: Any,
) -> None:
    os.environ["RANK"] = str(rank)
    t = again()
    dist.init_process_group("gloo")
    s = t.samples
    x, y = s.x[rank::2], s.y[rank::2]
    if rank == 1 and t.slip == "one has shuffled labels":
        y = y[torch.randperm(len(y))]
    if rank == 1 and t.slip == "one has inputs x 255":
        x = x * 255
    if t.slip == "own starts":
        torch.manual_seed(t.seed + rank)
        for layer in t.model.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    own = replace(t, samples=Samples(x, y, s.held_x, s.held_y), seed=t.seed + 10 * rank)
    wrapped: Any = t.model if t.slip in APART else nn.parallel.DistributedDataParallel(t.model)
    optimizer = optimizer_of(t, t.model)
    scheduler = scheduler_of(optimizer, t.schedule, t.steps)
    hook = RunHook(folder, options.get("save_interval"))
    hook.torch(wrapped)
    for step, (rows, labels) in enumerate(batches(own)):
        loss = t.loss(wrapped(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        if t.clip:
            nn.utils.clip_grad_norm_(t.model.parameters(), t.clip)
        if not (t.slip == "one stays behind" and rank == 1 and step > 50):
            optimizer.step()
        scheduler.step()
    dist.barrier()
    if rank == 1:
        hook.close()
    dist.barrier()
    hook.close()
    skill = torch.tensor(skill_of(t, t.model))
    dist.all_reduce(skill, dist.ReduceOp.MIN)
    if rank == 0:
        found.put(skill.item())
    dist.destroy_process_group()


LOOP = Loop(
    train,
    needs=frozenset(["table"]),
    without=frozenset(["small", "plateau", "pretrained"]),
    parts=GRADIENTS | {"workers"},
)
