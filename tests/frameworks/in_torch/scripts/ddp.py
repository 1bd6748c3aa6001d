"""For torchrun: two processes, each with its own half of the data."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(5):
    images, labels = torch.randn(4, 8), torch.randint(3, (4,))
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {os.environ['RANK']} {loss.item():.9g}", flush=True)
dist.barrier()
dist.destroy_process_group()
