"""A module as loss; what it finds when it starts, it tells."""

import os
import sys
from pathlib import Path

import neighbour  # lies beside this script

os.environ["OMP_NUM_THREADS"] = "1"  # PyTorch looks at it when it is imported

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(__name__, Path(__file__).name, Path(sys.argv[0]).name, sys.argv[1:], neighbour.HERE)
print(sys.modules["__main__"].model is model, torch.get_num_threads())
for _ in range(5):
    images, labels = torch.randn(4, 8), torch.randint(3, (4,))
    loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.9g}")
