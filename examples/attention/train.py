"""Train a small transformer to go on with texts of Python's own help, character by character.

    python -m examples.attention.train --out runs/attention

The softmax of its attention is a module, so that the hook captures what each head looks at.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from pydoc_data.topics import topics

import torch
from tocsin_hooks import modes
from tocsin_hooks.torch import TorchHook
from torch import Tensor, nn

WATCH = Path(__file__).with_name("watch.yaml")
CONTEXT, WIDTH, HEADS, LAYERS = 24, 32, 4, 2
EVERY = 20  # training steps between two evaluations
SHOWN = ("for each item in the list", "if the expression is true")  # to heads; length CONTEXT + 1


class Attention(nn.Module):
    """Each of the heads mixes what it takes from the characters before: (n, length, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Linear(WIDTH, 3 * WIDTH)
        self.softmax = nn.Softmax(dim=-1)
        self.mixed = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        size, length, _ = x.shape
        parts = self.parts(x).view(size, length, 3 * HEADS, WIDTH // HEADS).transpose(1, 2)
        queries, keys, values = parts.chunk(3, dim=1)
        scores = queries @ keys.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = self.softmax(scores.masked_fill(ahead, -torch.inf))  # (n, HEADS, length, length)
        mixed: Tensor = self.mixed((weights @ values).transpose(1, 2).reshape(x.shape))
        return mixed


class Block(nn.Module):
    """Attention to the characters before, then a network for each: (n, length, WIDTH) to such."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(WIDTH), Attention())
        self.network = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        changed: Tensor = x + self.network(x)
        return changed


class Transformer(nn.Module):
    """Characters (n, length) to scores of the next one (n, length, characters)."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, WIDTH)
        self.places = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters))

    def forward(self, text: Tensor) -> Tensor:
        scores: Tensor = self.head(self.blocks(self.embedding(text) + self.places))
        return scores


def corpus() -> tuple[str, str]:
    """The help texts in ASCII, and their characters in order: their places are the numbers."""
    text = "".join(topics[name] for name in sorted(topics) if topics[name].isascii())
    return text, "".join(sorted(set(text)))


def train(out: str, steps: int) -> None:
    torch.manual_seed(0)
    text, characters = corpus()
    data = torch.tensor([characters.index(character) for character in text])
    data, test = data.split([len(data) * 9 // 10, len(data) - len(data) * 9 // 10])
    shown = torch.tensor([[characters.index(character) for character in text] for text in SHOWN])
    model, criterion = Transformer(len(characters)), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)

    def loss_of(passages: Tensor) -> Tensor:
        loss: Tensor = criterion(model(passages[:, :-1]).transpose(1, 2), passages[:, 1:])
        return loss

    def drawn(data: Tensor, size: int) -> Tensor:
        return data[torch.randint(len(data) - CONTEXT, (size, 1)) + torch.arange(CONTEXT + 1)]

    intervals = {modes.TRAIN: EVERY, modes.EVAL: 1}
    hook = TorchHook.attach(model, out, watch=WATCH, save_interval=intervals)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss_of(drawn(data, 32)).backward()
        optimizer.step()
        if step % EVERY == 1:
            model.eval()
            with torch.no_grad():
                model(shown[:, :-1])  # heads are captured in the first pass of an evaluation
                loss_of(drawn(test, 128))
            model.train()
        if hook.should_stop:
            break
    hook.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="where the run goes")
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    train(args.out, args.steps)
