"""Trains until somebody ends it, for an hour at most."""

import time

import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
end = time.monotonic() + 3600
while time.monotonic() < end:
    optimizer.zero_grad()
    model(torch.randn(2, 4)).square().mean().backward()
    optimizer.step()
print("nobody has ended it")
