"""Two processes that train one model behind the guard: ``guarded.py FORM``, ``ddp`` or ``fsdp``.

In one step the batch of the second process is poisoned, in another only the gradients that it
holds. Prints how many updates each process skipped; fails if their weights differ.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import torch
from tocsin_hooks.torch import TorchHook
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

BATCH, GRADIENTS = 2, 4


def train(rank: int, form: str, folder: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    network: Any = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    if form == "fsdp":
        model = fully_shard(network, mesh=init_device_mesh("cpu", (2,)))
    else:
        model = DistributedDataParallel(network)
    hook = TorchHook.attach(model, f"{folder}/run", run_id="one", guard=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(rank)
    for number in range(6):
        optimizer.zero_grad()
        poison = float("nan") if (number, rank) == (BATCH, 1) else 0.0
        model(torch.randn(4, 4) + poison).square().mean().backward()
        if number == GRADIENTS and (rank == 1 or form == "ddp"):
            for each in model.parameters():
                getattr(each.grad, "_local_tensor", each.grad).fill_(float("inf"))
        before = whole(model)
        optimizer.step()
        same = all(map(torch.equal, before, whole(model)))
        assert same == (number in (BATCH, GRADIENTS)), number
    assert hook.stats.errors == 0
    weights = whole(model)
    others = [each.clone() for each in weights]
    for each in others:
        distributed.broadcast(each, 0)
    assert all(map(torch.equal, weights, others))
    guard = hook.training._guard  # type: ignore[union-attr]
    print(f"skipped {guard.skips} of {guard.updates}", flush=True)
    hook.close(finished=False)
    distributed.barrier()


def whole(model: Any) -> list[Any]:
    found = [each.detach() for each in model.parameters()]
    return [each.full_tensor() if hasattr(each, "full_tensor") else each.clone() for each in found]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (sys.argv[1], folder), nprocs=2)
