"""A training with an error in each of our functions: which of them harm it?"""

import itertools
import sys
from pathlib import Path

import torch
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.injection import harmful

out = Path(sys.argv[1])
runs = itertools.count()


def training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1)
    hook = TorchHook.attach(model, out / str(next(runs)), save_interval=1)
    inputs, labels = torch.randn(8, 4), torch.randint(0, 2, (8,))
    for step in range(3):
        optimizer.zero_grad()
        if step == 2:
            found = hook.record_loss(nn.functional.mse_loss(model(inputs), torch.ones(8, 2)))
        elif step == 1:  # computed by functions, and not recorded
            found = model(inputs).square().mean()
        else:
            found = loss(model(inputs), labels)
        found.backward()
        optimizer.step()
    with torch.no_grad():
        model(inputs)
        hook.save("mine", inputs)
    hook.close(timeout=5)
    return [parameter.tolist() for parameter in model.parameters()]


print(*sorted(harmful(training, "torch/")), sep="\n")
