"""Trains a tiny model with the hook, and prints its last weight; run where PyTorch is."""

from __future__ import annotations

import json
import sys

import torch
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.torch import TorchHook


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = torch.nn.Linear(4, 3)
        self.relu = torch.nn.ReLU()
        self.fc2 = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.relu(self.fc1(x)))


def main() -> None:
    torch.manual_seed(0)
    model, criterion = Net(), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    capture = Capture(
        collections={
            "weights": CollectionConfig(save_raw_tensor=True),
            "gradients": CollectionConfig(reductions="mean,l2_norm"),
        }
    )
    weights = {}
    with TorchHook.attach(model, sys.argv[1], save_interval=2, capture=capture):
        for step in range(5):
            weights[step] = model.fc1.weight.detach().tolist()
            optimizer.zero_grad()
            criterion(model(torch.randn(8, 4)), torch.arange(8) % 2).backward()
            optimizer.step()
        model.eval()
        model(torch.randn(8, 4))
    print(json.dumps(weights))


if __name__ == "__main__":
    main()
