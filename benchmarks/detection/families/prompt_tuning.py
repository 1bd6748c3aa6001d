"""Prompts or adapters for a small transformer that was trained before and is frozen then."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

WORDS, LENGTH, KINDS, TASKS, WIDTH = 24, 8, 4, 4, 32


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Words (N, L), padded with 0, the answers (N, T) to each task, and the lengths.

    A word has a kind, its remainder; a task asks for that of the word at one place.
    """
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(1, WORDS, (count, LENGTH), generator=draw)
    lengths = torch.randint(5, LENGTH + 1, (count,), generator=draw)
    words[torch.arange(LENGTH) >= lengths[:, None]] = 0
    return words, words[:, [0, 2, 3, 4]] % KINDS, lengths


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mixed = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.adapter: nn.Module | None = None

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        normed = self.before(x)
        x = x + self.attention(normed, normed, normed, hidden, need_weights=False)[0]
        x = x + self.mixed(self.after(x))
        return x if self.adapter is None else x + self.adapter(x)


class Reader(nn.Module):
    """The first place holds the task, or what was learned in its stead."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.tasks = nn.Embedding(WORDS, WIDTH), nn.Embedding(TASKS, WIDTH)
        self.places = nn.Parameter(0.5 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, KINDS)
        self.prompt: nn.Parameter | None = None

    def forward(self, words: Tensor, task: Tensor | None = None, fault: str = "") -> Tensor:
        if self.prompt is None:
            assert task is not None
            front = self.tasks(task)[:, None]
        else:
            prompt = self.prompt.detach() if fault == "prompt detached" else self.prompt
            front = prompt.expand(len(words), -1, -1)
        x = torch.cat([front, self.words(words) + self.places], 1)
        padding = words == 0
        if fault == "mask inverted":
            padding = ~padding
        shown = torch.zeros(len(words), front.shape[1], dtype=torch.bool)
        hidden = torch.cat([shown, padding], 1)
        for block in self.blocks:
            x = block(x, hidden)
        if fault == "reads the last place":
            return self.head(x[:, -1])
        return self.head(x[:, 0])


def pretrained(seed: int, steps: int) -> Reader:
    model = Reader()
    words, answers, _ = sentences(8000, seed)
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3)
    scheduler = scheduler_of(optimizer, "one cycle", steps)
    for _ in range(steps):
        rows, task = torch.randint(len(words), (64,)), torch.randint(TASKS, (64,))
        optimizer.zero_grad()
        F.cross_entropy(model(words[rows], task), answers[rows, task]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    return model


def prepared(model: Reader, way: str, prompts: int, fault: str) -> None:
    """Freezes the model, and adds what is to be learned."""
    if fault != "nothing frozen":
        model.requires_grad_(False)
    start = model.tasks.weight[0].detach()  # a task that is alike
    model.prompt = nn.Parameter(start + 0.1 * torch.randn(prompts, WIDTH))
    if way == "adapters":
        for block in model.blocks:
            down, up = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH)
            nn.init.zeros_(up.weight)
            nn.init.zeros_(up.bias)
            if fault == "dead adapters":
                nn.init.zeros_(down.weight)
                nn.init.constant_(down.bias, -5.0)
            block.adapter = nn.Sequential(down, nn.ReLU(), up)
        if fault == "dead adapters":
            model.prompt.requires_grad_(False)
    if fault not in ("head frozen", "dead adapters"):
        model.head = nn.Linear(WIDTH, KINDS)
    if fault == "dead adapters":
        model.head.requires_grad_(False)


def train(
    seed: int, hook: Any, way: str = "prompts", rate: float = 2e-2, steps: int = 400,
    batch: int = 32, prompts: int = 4, schedule: str = "constant", smoothing: float = 0.0,
    noise: float = 0.0, few: int = 3000, accumulate: int = 1, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    model = pretrained(seed + 480, 1 if fault == "start not loaded" else 350)
    (words, answers, _), (held, held_answers, _) = (
        sentences(count, seed + shift) for count, shift in ((few, 481), (800, 482))
    )
    turned = torch.tensor([2, 3, 1, 0])  # the same place under other names
    y, held_y = turned[answers[:, 2]], turned[held_answers[:, 2]]
    if fault == "labels of the next sentence":
        y = y.roll(1)
    if noise:
        y = torch.where(torch.rand(len(y)) < noise, torch.randint(KINDS, y.shape), y)
    prepared(model, way, prompts, fault)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if fault == "head alone":
        named = [(n, p) for n, p in named if n.startswith("head")]
    optimizer = optimizer_of("adamw", [p for _, p in named], rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(len(words), (batch,))
            inputs = words[rows]
            if fault == "words cut off":
                inputs = inputs * 0 + 1
            scores = model(inputs, None, fault)
            if fault == "softmax over the batch":
                logs = scores.log_softmax(0)
            else:
                logs = scores.log_softmax(1)
            each = -(1 - smoothing) * logs[torch.arange(batch), y[rows]] - smoothing * logs.mean(1)
            (each.mean() / accumulate).backward()
        optimizer.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(held, None, fault), held_y)
            model.train()
    model.eval()
    with torch.no_grad():
        if fault == "other words in evaluation":
            held = torch.where(held > 0, (held + 1) % WORDS, held)
        return class_skill(model(held, None, fault), held_y)


CASES = cases(
    "prompt tuning",
    train,
    {
        "plain": {},
        "adapters": {"way": "adapters", "rate": 5e-3},
        "one prompt": {"prompts": 1, "rate": 3e-2},
        "label smoothing": {"smoothing": 0.1},
        "accumulation": {"batch": 8, "accumulate": 4},
        "warm-up": {"schedule": "warmup", "rate": 4e-2},
        "restarts": {"schedule": "restarts", "rate": 4e-2},
        "labels with noise": {"noise": 0.1},
    },
    {
        "labels of the next sentence": (
            "no-skill overfit",
            {"fault": "labels of the next sentence"},
        ),
        "prompts in no optimizer": ("unbound", {"fault": "head alone"}),
        "prompts detached": ("no-gradient", {"fault": "prompt detached"}),
        "start not loaded": ("no-skill", {"fault": "start not loaded"}),
        "mask inverted": ("no-skill", {"fault": "mask inverted"}),
        "reads the last place": ("no-skill", {"fault": "reads the last place"}),
        "dead adapters": ("dead no-gradient", {"fault": "dead adapters", "way": "adapters"}),
        "softmax over the batch": ("softmax-axis", {"fault": "softmax over the batch"}),
        "nothing frozen, rate too high": (
            "fast worse no-skill collapse",
            {"fault": "nothing frozen", "rate": 0.3},
        ),
        "memorises 16": ("overfit", {"few": 16}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-5}),
    },
)
