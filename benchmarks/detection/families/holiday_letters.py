"""Which of six wishes a letter to a hotel holds: a small transformer with a mask of the padding.

What is asked for (a cot, a late arrival, a pet, a refund, a quiet room, a transfer) is said by two
words in a row, among words of all kinds; some letters deny another. The skill is the accuracy for
other letters above that of the most frequent wish.
"""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.detection.case import cases

WISHES, FILLERS, LONGEST = 6, 80, 32
PAD, UNKNOWN = 0, 1
WORDS = {
    wish: [f"{kind}{number}" for number in range(5)]
    for wish, kind in enumerate(("cot", "late", "pet", "refund", "quiet", "transfer"))
}


def letter(draw: random.Random) -> tuple[list[str], int]:
    """Words, and the wish; a denied one follows "not"."""
    wish, other = draw.sample(range(WISHES), 2)
    words = [f"w{int(draw.paretovariate(0.6)) % FILLERS}" for _ in range(draw.randint(4, 24))]
    parts = [["please", draw.choice(WORDS[wish])]]
    if draw.random() < 0.2:
        parts.append(["not", draw.choice(WORDS[other])])
    for part in parts:
        at = draw.randint(0, len(words))
        while at < len(words) and words[at - 1] in ("please", "not"):
            at += 1
        words[at:at] = part
    return words, wish


def letters(count: int, seed: int) -> list[tuple[list[str], int]]:
    draw = random.Random(seed)
    return [letter(draw) for _ in range(count)]


def vocabulary(of: list[tuple[list[str], int]]) -> dict[str, int]:
    words = dict.fromkeys(word for words, _ in of for word in words)
    return {word: number for number, word in enumerate(words, 2)}


class Batches:
    """Letters as numbers, padded to the longest of each batch."""

    def __init__(self, of: list[tuple[list[str], int]], known: dict[str, int]) -> None:
        self.ids = [torch.tensor([known.get(word, UNKNOWN) for word in words]) for words, _ in of]
        self.wishes = torch.tensor([wish for _, wish in of])

    def of(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        return pad_sequence([self.ids[row] for row in rows], batch_first=True), self.wishes[rows]


class LetterNet(nn.Module):
    def __init__(
        self, words: int, width: int, dropout: float, first: bool, mask: str, head: nn.Module
    ) -> None:
        super().__init__()
        self.mask = mask
        self.words = nn.Embedding(words, width, padding_idx=PAD)
        self.places = nn.Embedding(LONGEST, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout, batch_first=True, norm_first=first
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classify = nn.Sequential(nn.Linear(width, WISHES), head)

    def forward(self, ids: Tensor) -> Tensor:
        real = ids != PAD
        h = self.words(ids) + self.places.weight[: ids.shape[1]]
        hidden = real if self.mask == "turned round" else ~real
        h = self.encoder(h, src_key_padding_mask=hidden)
        mean = (h * real[:, :, None]).sum(1) / real.sum(1, keepdim=True)
        logits: Tensor = self.classify(mean)
        return logits


def train(
    seed: int, hook: Any, steps: int = 700, rate: float = 1e-3, batch: int = 16, width: int = 32,
    optimizer: str = "Adam", schedule: str = "", dropout: float = 0.1, first: bool = False,
    count: int = 3000, mask: str = "", head: str = "", smoothing: float = 0.0, decay: float = 0.0,
    scale: float = 1.0, half: bool = False, short_first: int = 0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    written = [letters(size, 70 * seed + size) for size in (count, 301, 1202)]
    known = [vocabulary(written[0])] * 3
    if fault == "words numbered again for each part":
        known = [vocabulary(part) for part in written]
    size = 2 + max(map(len, known))
    data, held, test = (Batches(of, ids) for of, ids in zip(written, known, strict=True))
    last = {"softmax": nn.Softmax(-1), "log": nn.LogSoftmax(-1)}.get(head, nn.Identity())
    model = LetterNet(size, width, dropout, first, mask, last)
    hook.torch(model)

    bare = [p for name, p in model.named_parameters() if p.dim() < 2 or "words" in name]
    rest = [p for name, p in model.named_parameters() if p.dim() > 1 and "words" not in name]
    groups = [{"params": rest, "weight_decay": decay}, {"params": bare, "weight_decay": 0.0}]
    if fault == "head alone in the optimizer":
        groups = [{"params": model.classify.parameters()}]
    more = {"momentum": 0.9} if optimizer == "SGD" else {}
    updates = getattr(torch.optim, optimizer)(groups, lr=rate, **more)

    def factor(step: int) -> float:
        if schedule != "square root":
            return 1.0
        return min((step + 1) / 200, math.sqrt(200 / (step + 1)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(updates, factor)
    loss_of: nn.Module = nn.CrossEntropyLoss(label_smoothing=smoothing)
    if head:
        loss_of = nn.NLLLoss()

    draw = random.Random(seed)
    rows_of = sorted(range(count), key=lambda row: len(data.ids[row]))
    for step in range(steps):
        model.train()
        easy = rows_of[: count // 3] if step < short_first else rows_of
        ids, wish = data.of(draw.choices(easy, k=batch))
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = scale * loss_of(model(ids), wish)
        updates.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), scale)
        updates.step()
        scheduler.step()
        if (step + 1) % 100 == 0:
            model.eval()
            with torch.no_grad():
                ids, wish = held.of(list(range(301)))
                loss_of(model(ids), wish)
    model.eval()
    with torch.no_grad():
        ids, wish = test.of(list(range(1202)))
        return class_skill(model(ids), wish)


CASES = cases(
    "holiday letters",
    train,
    {
        "plain": {},
        "norms first, inverse square root": {
            "first": True, "schedule": "square root", "rate": 3e-3,
        },
        "smoothed, decay of matrices alone": {
            "smoothing": 0.1, "optimizer": "AdamW", "decay": 0.1,
        },
        "logarithms, loss times 1000": {"head": "log", "scale": 1000.0},
        "bfloat16": {"half": True},
        "short letters first": {"short_first": 250},
        "SGD with momentum": {"optimizer": "SGD", "rate": 0.05},
    },
    {
        "mask turned round": ("not-finite inputs", {"mask": "turned round"}),
        "softmax, not its logarithm": ("probabilities", {"head": "softmax", "steps": 400}),
        "rate of 0.03": ("fast no-skill collapse", {"rate": 0.03}),
        "words numbered again for each part": (
            "inputs overfit worse", {"fault": "words numbered again for each part"},
        ),
        "head alone in the optimizer": ("unbound slow", {"fault": "head alone in the optimizer"}),
        "sixty letters": ("overfit", {"count": 60}),
    },
)  # fmt: skip
