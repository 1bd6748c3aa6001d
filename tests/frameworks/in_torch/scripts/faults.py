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


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.order = nn.Embedding(9, 4), nn.GRU(4, 4)
        self.last = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

    def forward(self, words):
        lengths = torch.tensor([4, 4, 4, 3, 3, 2, 2, 1])
        packed = nn.utils.rnn.pack_padded_sequence(self.words(words).transpose(0, 1), lengths)
        return self.last(self.order(packed)[1][-1] + self.order(self.words(words))[0][:, 0])


def training():
    torch.manual_seed(0)
    model = Reader()
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1)
    hook = TorchHook.attach(model, out / str(next(runs)), save_interval=1)
    inputs, labels = torch.randint(0, 9, (8, 4)), torch.randint(0, 2, (8,))
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
