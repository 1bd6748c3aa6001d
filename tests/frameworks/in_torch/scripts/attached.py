"""Captures itself, to the run that its argument says."""

import sys

import torch
from tocsin_hooks.torch import TorchHook
from torch import nn

model = nn.Linear(4, 1)
with TorchHook.attach(model, sys.argv[1], save_interval=1):
    model(torch.randn(2, 4)).square().mean().backward()
