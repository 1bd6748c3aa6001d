"""Two nodes train one network on handwritten digits, four times: ``python train.py FOLDER``.

Each node is a process of gloo; on one machine they stand for two. ``healthy`` is as it should be.
In ``wrong-labels`` the labels of the second node do not belong to its images, in ``slow-node`` its
forward passes take longer. In ``sharded`` the nodes share the parameters (FSDP2), and the initial
weights are fifty times too large.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from tocsin_hooks.torch import TorchHook
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

NODES = 2
STEPS = 300
FORMS = ("healthy", "wrong-labels", "slow-node", "sharded")
WATCH = Path(__file__).with_name("watch.yaml")


class Network(nn.Sequential):
    """``seconds``: how much longer a forward pass takes."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.append(nn.Linear(128, 10))
        self.seconds = 0.0

    def forward(self, images: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return super().forward(images)


def digits(rank: int) -> tuple[Tensor, Tensor]:
    """This node's share of the images (n, 64), from 0 to 1, and their labels (n,)."""
    images, labels = map(torch.as_tensor, load_digits(return_X_y=True))
    return images[rank::NODES].float() / 16, labels[rank::NODES]


def distribute(network: Network, form: str) -> Any:
    if form != "sharded":
        return DistributedDataParallel(network)
    mesh = init_device_mesh("cpu", (NODES,))
    for layer in network:
        fully_shard(layer, mesh=mesh)
    return fully_shard(network, mesh=mesh)


def train(form: str, out: Path) -> None:
    """The work of a node, once all are connected."""
    rank = distributed.get_rank()
    images, labels = digits(rank)
    torch.manual_seed(0)
    network = Network()
    if form == "sharded":
        with torch.no_grad():
            for parameter in network.parameters():
                parameter *= 50
    model = distribute(network, form)
    torch.manual_seed(1 + rank)  # the same weights, other batches
    if form == "wrong-labels" and rank == 1:
        labels = labels[torch.randperm(len(labels))]
    network.seconds = 0.05 if form == "slow-node" and rank == 1 else 0.01
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    criterion = nn.CrossEntropyLoss()
    hook = TorchHook.attach(model, out, watch=WATCH, max_overhead=None, run_id="start-1")
    for _ in range(STEPS):
        batch = torch.randint(len(images), (64,))
        loss = criterion(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank > 0:
        hook.close()
    distributed.barrier()  # the first node ends the run, when the others have written theirs
    hook.close()


def node(rank: int, folder: Path, meeting: str) -> None:
    """A node as torchrun would start it, with one process on it."""
    os.environ |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": str(NODES)}
    os.environ |= {"GROUP_RANK": str(rank), "TOCSIN_MINUTE": "1"}  # a minute lasts a second here
    tempfile.tempdir = tempfile.mkdtemp(dir=meeting)  # machines do not share theirs
    torch.set_num_threads(1)
    store = f"file://{meeting}/store"
    distributed.init_process_group("gloo", store, rank=rank, world_size=NODES)
    for form in FORMS:
        train(form, folder / form)
    distributed.barrier()
    os._exit(0)  # rather than free the group: gloo's threads now and then abort a process there


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the runs go")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as meeting:
        torch.multiprocessing.spawn(node, (args.folder, meeting), nprocs=NODES)


if __name__ == "__main__":
    main()
