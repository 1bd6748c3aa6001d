"""One training in three forms, in two processes: ``sharded.py FOLDER`` writes a run of each.

``one`` is trained by one process with whole batches, ``fsdp`` by two that share its parameters
(FSDP2), ``zero`` by two that share the state of its optimizer (ZeRO). Each with two learning rates.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tocsin_hooks.torch import TorchHook
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS = 30
RATES = {"healthy": 0.05, "diverging": 50.0}


def sharded(network: Any) -> Any:
    mesh = init_device_mesh("cpu", (2,))
    for layer in network:
        fully_shard(layer, mesh=mesh)
    return fully_shard(network, mesh=mesh)


def train(form: str, run: Path, rate: float) -> None:
    rank, workers = (0, 1) if form == "one" else (distributed.get_rank(), 2)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 1))
    model: Any = network
    if form == "fsdp":
        model = sharded(network)
    elif form == "zero":
        model = DistributedDataParallel(network)
    options = {"worker": f"worker_{rank}", "num_workers": workers, "run_id": "start-1"}
    hook = TorchHook.attach(model, run, save_interval=1, max_overhead=None, **options)
    parameters = model.parameters()
    if form == "zero":
        optimizer: Any = ZeroRedundancyOptimizer(parameters, torch.optim.SGD, lr=rate)
    else:
        optimizer = torch.optim.SGD(parameters, rate)
    for _ in range(STEPS):
        inputs = torch.randn(16, 4)
        wanted = inputs[:, :1] + 0.1 * torch.randn(16, 1)
        optimizer.zero_grad()
        nn.MSELoss()(model(inputs[rank::workers]), wanted[rank::workers]).backward()
        optimizer.step()
    if rank:
        hook.close()
    if workers > 1:
        distributed.barrier()  # the first writes the end marker, after all others
    hook.close()
    assert hook.stats.errors == 0


def work(rank: int, folder: str, meeting: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{meeting}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    for fault, rate in RATES.items():
        for form in ("fsdp", "zero", "one"):
            if form != "one" or rank == 0:
                train(form, Path(folder) / fault / form, rate)
    distributed.barrier()
    os._exit(0)  # the threads of gloo may fail, or wait, where the group is freed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as meeting:
        multiprocessing.spawn(work, (sys.argv[1], meeting), nprocs=2)
