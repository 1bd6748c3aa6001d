"""The two models that hooks are measured on, and one step of their training."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
VOCABULARY = 1_000

Size = Literal["full", "few", "small"]
"""``few`` is the full model with a batch that hardly needs memory; ``small`` has small layers."""


@dataclass(frozen=True)
class Training:
    """A model with everything that a step takes; always the same batch."""

    model: nn.Module
    criterion: nn.Module
    optimizer: torch.optim.Optimizer
    inputs: Tensor
    labels: Tensor

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.criterion(self.model(self.inputs), self.labels).backward()
        self.optimizer.step()


def resnet(device: str, size: Size) -> Training:
    """ResNet-18 as it is used on 32 × 32 images: no pooling before the first block."""
    torch.manual_seed(0)
    batch, side = (32, 32) if size == "full" else (2, 8)
    width = 4 if size == "small" else 64
    model = ResNet18(width).to(device)
    return Training(
        model,
        nn.CrossEntropyLoss(),
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        torch.randn(batch, 3, side, side, device=device),
        torch.randint(CLASSES, (batch,), device=device),
    )


def transformer(device: str, size: Size) -> Training:
    """Six layers, 8 sequences of 128 tokens, each predicts the next."""
    torch.manual_seed(0)
    batch, length = (8, 128) if size == "full" else (2, 8)
    width = 16 if size == "small" else 512
    model = Transformer(length, width).to(device)
    return Training(
        model,
        nn.CrossEntropyLoss(),
        torch.optim.AdamW(model.parameters(), lr=1e-4),
        torch.randint(VOCABULARY, (batch, length), device=device),
        torch.randint(VOCABULARY, (batch, length), device=device).flatten(),
    )


MODELS = {"resnet": resnet, "transformer": transformer}


class ResNet18(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, width, 1), nn.BatchNorm2d(width), nn.ReLU())
        widths = (width, width, 2 * width, 4 * width, 8 * width)
        self.stages = nn.Sequential(
            *(
                nn.Sequential(Block(before, after, 2 if number else 1), Block(after, after, 1))
                for number, (before, after) in enumerate(pairwise(widths))
            )
        )
        self.head = nn.Linear(widths[-1], CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.stages(self.stem(images)).mean((2, 3)))


class Block(nn.Module):
    """Two convolutions beside a shortcut, which is a convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _convolution(before, after, stride), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = _convolution(after, after, 1), nn.BatchNorm2d(after)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            projection = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(x)))))
        return self.relu2(inner + self.shortcut(x))


def _convolution(before: int, after: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False)


class Transformer(nn.Module):
    def __init__(self, length: int, width: int, layers: int = 6, heads: int = 8) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.layers(self.tokens(tokens) + self.places(places))
        return self.head(self.norm(x)).flatten(0, 1)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.gelu = nn.Linear(width, 4 * width), nn.GELU()
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(self.norm1(x))
        return x + self.narrow(self.gelu(self.widen(self.norm2(x))))

    def _attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.project(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.merge(mixed.transpose(1, 2).reshape(batch, length, width))
