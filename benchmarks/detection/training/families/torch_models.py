"""The models in PyTorch: convolutions, recurrences, attention, and a normalised perceptron."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from benchmarks.detection.training.families.torch_network import TorchNetwork
from benchmarks.detection.training.network import Network
from benchmarks.detection.training.samples import Data
from benchmarks.detection.training.setup import Setup

Cell = Literal["gru", "rnn"]
CHANNELS = 8
HEADS = 2


def normalised(setup: Setup, data: Data) -> Network:
    """A perceptron with layer normalisation."""
    torch.manual_seed(setup.seed)
    size, parts = data.train.x[0].size, nn.Sequential(nn.Flatten())
    for number in range(setup.layers):
        parts.add_module(f"dense{number}", nn.Linear(size, setup.width))
        parts.add_module(f"norm{number}", nn.LayerNorm(setup.width))
        parts.add_module(f"act{number}", nn.ReLU())
        parts.add_module(f"dropout{number}", nn.Dropout(setup.dropout))
        size = setup.width
    parts.add_module("output", nn.Linear(size, data.outputs))
    return TorchNetwork(parts)


def convolutional(setup: Setup, data: Data) -> Network:
    torch.manual_seed(setup.seed)
    _, channels, height, width = data.train.x.shape
    parts, size = nn.Sequential(), (height // 2) * (width // 2)
    parts.add_module("conv0", nn.Conv2d(channels, CHANNELS, 3, padding=1))
    parts.add_module("act0", nn.ReLU())
    parts.add_module("pool", nn.MaxPool2d(2))
    parts.add_module("conv1", nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))
    parts.add_module("act1", nn.ReLU())
    parts.add_module("flat", nn.Flatten())
    parts.add_module("dropout", nn.Dropout(setup.dropout))
    parts.add_module("output", nn.Linear(CHANNELS * size, data.outputs))
    return TorchNetwork(parts)


def gru(setup: Setup, data: Data) -> Network:
    torch.manual_seed(setup.seed)
    return TorchNetwork(_Recurrent(setup, data, "gru"))


def rnn(setup: Setup, data: Data) -> Network:
    torch.manual_seed(setup.seed)
    return TorchNetwork(_Recurrent(setup, data, "rnn"))


def transformer(setup: Setup, data: Data) -> Network:
    torch.manual_seed(setup.seed)
    return TorchNetwork(_Transformer(setup, data))


class _Entrance(nn.Module):
    """Tokens, or the rows of an image, as vectors: (n, length, width)."""

    def __init__(self, data: Data, width: int) -> None:
        super().__init__()
        self.tokens = data.task == "tokens"
        if self.tokens:
            self.embedding = nn.Embedding(data.outputs, width)
            self.length = data.train.x.shape[1]
        else:
            _, channels, self.length, columns = data.train.x.shape
            self.rows = nn.Linear(channels * columns, width)

    def forward(self, x: Tensor) -> Tensor:
        vectors: Tensor = (
            self.embedding(x) if self.tokens else self.rows(x.transpose(1, 2).flatten(2))
        )
        return vectors


class _Recurrent(nn.Module):
    def __init__(self, setup: Setup, data: Data, cell: Cell) -> None:
        super().__init__()
        self.entrance = _Entrance(data, setup.width)
        self.cell = (
            nn.GRU(setup.width, setup.width, batch_first=True)
            if cell == "gru"
            else nn.RNN(setup.width, setup.width, batch_first=True, nonlinearity="relu")
        )
        nn.init.orthogonal_(self.cell.get_parameter("weight_hh_l0"))
        self.output = nn.Linear(setup.width, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cell(self.entrance(x))
        found: Tensor = self.output(states if self.entrance.tokens else states[:, -1])
        return found


class _Transformer(nn.Module):
    """One block: causal attention for tokens, and the mean over the rows of an image."""

    def __init__(self, setup: Setup, data: Data) -> None:
        super().__init__()
        width = setup.width
        self.entrance = _Entrance(data, width)
        self.position_weight = nn.Parameter(0.02 * torch.randn(self.entrance.length, width))
        self.norm0 = nn.LayerNorm(width)
        self.mixer = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.act = nn.ReLU()
        self.down = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(setup.dropout)
        self.output = nn.Linear(width, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.entrance(x) + self.position_weight
        h = h + self.dropout(self.mixed(self._attention(self.norm0(h))))
        h = h + self.dropout(self.down(self.act(self.up(self.norm1(h)))))
        found: Tensor = self.output(h if self.entrance.tokens else h.mean(dim=1))
        return found

    def _attention(self, h: Tensor) -> Tensor:
        n, length, width = h.shape
        parts = self.mixer(h).view(n, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(
            parts[0], parts[1], parts[2], is_causal=self.entrance.tokens
        )
        return mixed.transpose(1, 2).reshape(n, length, width)
