"""Prints a loss as many scripts do, of which PyTorch warns."""

import tempfile

import torch
from tocsin_hooks.torch import TorchHook

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with TorchHook.attach(model, tempfile.mkdtemp()):
    loss = model(torch.ones(8, 4)).square().mean()
    print(f"{float(loss):.3f}")
    loss.backward()
    optimizer.step()
