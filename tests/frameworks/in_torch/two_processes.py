"""Two processes that train one model with DistributedDataParallel: ``two_processes.py RUN HOW …``.

HOW: ``wrapped`` attaches to the wrapper, ``inner`` to the model before it is wrapped, ``one``
lets the first worker alone capture.
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
from torch.nn.parallel import DistributedDataParallel

STEPS = 5


def train(rank: int, run: str, how: str, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}/store", rank=rank, world_size=2
    )
    inner = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    options: dict[str, Any] = {"save_interval": 2, "run_id": "start-1"}
    if how == "one":
        options["include_workers"] = "one"
    if how == "inner":
        hook = TorchHook.attach(inner, run, **options)
    model = DistributedDataParallel(inner)
    if how != "inner":
        hook = TorchHook.attach(model, run, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(rank)  # each has data of its own
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.MSELoss()(model(torch.randn(16, 4)), torch.zeros(16, 2)).backward()
        optimizer.step()
    if rank == 0:
        distributed.barrier()  # the first writes the end marker, after all others
        hook.close()
    else:
        hook.close()
        distributed.barrier()
    distributed.barrier()
    assert hook.stats.errors == 0
    os._exit(0)  # the threads of gloo may fail, or wait, where the group is freed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (sys.argv[1], sys.argv[2], str(Path(folder))), nprocs=2)
