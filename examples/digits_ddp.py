"""Train on scikit-learn's handwritten digits in two processes, with DistributedDataParallel.

It starts its processes by itself, or is started by torchrun:

    python examples/digits_ddp.py --out runs/healthy
    torchrun --nproc-per-node 2 examples/digits_ddp.py --out runs/healthy
    python examples/digits_ddp.py --out runs/apart --fault desynchronised

The fault is ``no_sync``, which is for the batches between two updates, round every batch: nobody
averages the gradients, and two models come of it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import uuid
from contextlib import nullcontext
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from tocsin_hooks.torch import TorchHook
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

FAULTS = ("desynchronised",)


def digits(rank: int, workers: int) -> tuple[Tensor, Tensor]:
    """This worker's share of the images (n, 64), from 0 to 1, and their labels (n,)."""
    images, labels = map(torch.as_tensor, load_digits(return_X_y=True))
    return images[rank::workers].float() / 16, labels[rank::workers]


def train(args: argparse.Namespace, run_id: str | None) -> None:
    """The work of each worker, once all are connected."""
    rank = distributed.get_rank()
    torch.manual_seed(args.seed)
    images, labels = digits(rank, distributed.get_world_size())
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model, criterion = DistributedDataParallel(network), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    hook = TorchHook.attach(model, args.out, save_interval=args.save_interval, run_id=run_id)

    torch.manual_seed(args.seed + 1 + rank)  # the same weights, other batches
    for step in range(1, args.steps + 1):
        batch = torch.randint(len(images), (args.batch_size,))
        with model.no_sync() if args.fault else nullcontext():
            loss = criterion(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {loss:.4g}", flush=True)
    if rank > 0:
        hook.close()
    distributed.barrier()  # the first worker ends the run, when the others have written theirs
    if rank == 0:
        hook.close()


def worker(rank: int, args: argparse.Namespace, store: str, run_id: str) -> None:
    """A process that we have started: it meets the other one at the file ``store``."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=args.workers)
    train(args, run_id)
    distributed.barrier()
    os._exit(0)  # rather than free the group: gloo's threads now and then abort a process there


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="where the run goes: a folder or s3://bucket/prefix")
    add("--fault", choices=FAULTS, help="what goes wrong; by default nothing")
    add("--steps", type=int, default=200)
    add("--seed", type=int, default=0)
    add("--batch-size", type=int, default=32, help="of each worker")
    add("--save-interval", type=int, default=10, help="capture every N steps")
    add("--workers", type=int, default=2, help="how many to start, if torchrun does not")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun has started us
        distributed.init_process_group("gloo")
        try:
            train(args, None)
        finally:
            distributed.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        torch.multiprocessing.spawn(worker, (args, store, uuid.uuid4().hex), nprocs=args.workers)


if __name__ == "__main__":
    main()
