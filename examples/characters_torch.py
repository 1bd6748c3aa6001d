"""Train a small transformer to write like this project's documents, character by character.

The defaults train well. Two changes make it go wrong, as transformers really do:

    python examples/characters_torch.py --out runs/healthy
    python examples/characters_torch.py --out runs/too-fast --fault too-large-learning-rate
    python examples/characters_torch.py --out runs/vanishing --fault vanishing

In the second the learning rate is that of a small network and does not warm up. In the third
somebody stacked sigmoids without the connections that lead round them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - so does everybody
from tocsin_hooks import modes
from tocsin_hooks.torch import TorchHook
from torch import Tensor, nn

TEXT = Path(__file__).parents[1] / "docs"
FAULTS = ("too-large-learning-rate", "vanishing")
CONTEXT, WIDTH, HEADS, LAYERS = 32, 32, 4, 2


class Block(nn.Module):
    """Attention to the characters before, then a network for each: (n, length, WIDTH) to such."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.gelu = nn.GELU()
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, attn_mask=ahead, need_weights=False)[0]
        changed: Tensor = x + self.narrow(self.gelu(self.wide(self.norm2(x))))
        return changed


class Squashed(nn.Module):
    """A block of the fault ``vanishing``: a sigmoid without a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        squashed: Tensor = self.sigmoid(self.linear(x))
        return squashed


class Writer(nn.Module):
    """Characters (n, length) to scores of the next one (n, length, characters)."""

    def __init__(self, characters: int, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, WIDTH)
        self.places = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embedding(text) + self.places[: text.shape[1]]
        scores: Tensor = self.head(self.norm(self.blocks(x)))
        return scores


def corpus() -> tuple[Tensor, Tensor, str]:
    """The documents as numbers, nine tenths to train and one to test, and what those mean."""
    text = "".join(path.read_text() for path in sorted(TEXT.glob("*.md")))
    characters = "".join(sorted(set(text)))
    numbers = {character: number for number, character in enumerate(characters)}
    data = torch.tensor([numbers[character] for character in text])
    split = len(data) * 9 // 10
    return data[:split], data[split:], characters


def drawn(data: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Passages of the text (size, CONTEXT), and at each place the character that follows."""
    starts = torch.randint(len(data) - CONTEXT, (size, 1))
    passages = data[starts + torch.arange(CONTEXT + 1)]
    return passages[:, :-1], passages[:, 1:]


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    text, test_text, characters = corpus()
    too_fast, vanishing = (args.fault == name for name in FAULTS)
    kind, depth = (Squashed, 10) if vanishing else (Block, LAYERS)
    model = Writer(len(characters), [kind() for _ in range(depth)])
    optimizer = torch.optim.AdamW(model.parameters(), 1.0 if too_fast else 3e-3)
    warmup = 1 if too_fast else 20
    rising = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1.0, (at + 1) / warmup))

    every = {modes.TRAIN: args.save_interval, modes.EVAL: 1}
    hook = TorchHook.attach(model, args.out, watch=args.watch, save_interval=every)

    for step in range(1, args.steps + 1):
        passages, following = drawn(text, args.batch_size)
        scores = model(passages)
        loss = hook.record_loss(F.cross_entropy(scores.flatten(0, 1), following.flatten()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rising.step()

        if step % args.eval_interval == 0:
            model.eval()
            with torch.no_grad():
                passages, following = drawn(test_text, 4 * args.batch_size)
                scores = model(passages)
                test_loss = F.cross_entropy(scores.flatten(0, 1), following.flatten())
                hook.record_loss(test_loss)
            model.train()
            print(f"step {step}: loss {loss:.4g}, test loss {test_loss:.4g}", flush=True)
        if hook.should_stop:
            break
    hook.close()
    print(repr(written(model, characters, "The ", 60)))


def written(model: nn.Module, characters: str, begun: str, length: int) -> str:
    """The text that the model writes after ``begun``."""
    text = torch.tensor([[characters.index(character) for character in begun]])
    model.eval()
    with torch.no_grad():
        for _ in range(length):
            scores = model(text[:, -CONTEXT:])[0, -1]
            text = torch.cat([text, scores.argmax().reshape(1, 1)], dim=1)
    return "".join(characters[number] for number in text[0])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="where the run goes: a folder or s3://bucket/prefix")
    add("--fault", choices=FAULTS, help="what goes wrong; by default nothing")
    add("--steps", type=int, default=300)
    add("--seed", type=int, default=0)
    add("--batch-size", type=int, default=16, help="passages of 32 characters")
    add("--watch", help="a watch file, for what to capture and which rules to evaluate")
    add("--save-interval", type=int, default=10, help="capture every N training steps")
    add("--eval-interval", type=int, default=25, help="test every N training steps")
    return parser.parse_args()


if __name__ == "__main__":
    train(arguments())
