"""The mood of a message: a small convolutional student learns from a larger teacher's logits.

Few messages have a label; the teacher's logits, kept from before, are there for all. A word after
"not" says the next mood instead. The skill is the student's accuracy on unseen messages, by
their true mood, above the most frequent one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    optimizer_of,
    scheduler_of,
    with_noise,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

MOODS, OWN, NEUTRAL, LENGTH, NOT = 5, 12, 40, 12, 0
VOCABULARY = 1 + MOODS * OWN + NEUTRAL


def messages(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)

    def number(high: int, *shape: int) -> Tensor:
        return torch.randint(high, (count, *shape), generator=draw)

    mood = number(MOODS)
    text = 1 + MOODS * OWN + number(NEUTRAL, LENGTH // 2, 2)
    clear = torch.rand(count, 3, generator=draw) < 0.85
    meant = torch.where(clear, mood[:, None], number(MOODS, 3))
    negated = torch.rand(count, 3, generator=draw) < 0.3
    text[:, :3, 1] = 1 + (meant - negated.long()) % MOODS * OWN + number(OWN, 3)
    text[:, :3, 0] = torch.where(negated, NOT, text[:, :3, 0])
    order = torch.rand(count, LENGTH // 2, generator=draw).argsort(1)
    return text.gather(1, order[..., None].expand(-1, -1, 2)).flatten(1), mood


class TextCNN(nn.Module):
    """Words, convolutions over two and three of them, and the strongest answer of each filter."""

    def __init__(self, width: int, filters: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.convs = nn.ModuleList(nn.Conv1d(width, filters, size, padding=1) for size in (2, 3))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2 * filters, MOODS)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embedding(text).transpose(1, 2)
        found = [F.relu(conv(x)).amax(2) for conv in self.convs]
        scores: Tensor = self.fc(self.dropout(torch.cat(found, 1)))
        return scores


def trained_teacher(text: Tensor, mood: Tensor, steps: int = 500) -> TextCNN:
    teacher = TextCNN(32, 32, 0.3)
    optimizer = torch.optim.Adam(teacher.parameters(), 3e-3)
    for _ in range(steps):
        rows = torch.randint(len(text), (32,))
        optimizer.zero_grad()
        F.cross_entropy(teacher(text[rows]), mood[rows]).backward()
        optimizer.step()
    return teacher.eval()


def distillation_loss(
    student: Tensor, teacher: Tensor, mood: Tensor, kind: str, alpha: float, temperature: float
) -> Tensor:
    """Hinton's loss: soft targets, and the label where one is known (-100 elsewhere)."""
    if kind == "logits":
        return F.mse_loss(student, teacher)
    if kind == "hard":
        return F.cross_entropy(student, teacher.argmax(1))
    soft = F.kl_div(
        F.log_softmax(student / temperature, 1),
        F.softmax(teacher / temperature, 1),
        reduction="batchmean",
    )
    hard = F.cross_entropy(student, mood, ignore_index=-100, reduction="sum")
    return alpha * temperature**2 * soft + (1 - alpha) * hard / (mood >= 0).sum().clamp(min=1)


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 3e-3, batch: int = 24, count: int = 4000,
    loss: str = "", alpha: float = 0.7, temperature: float = 3.0, optimizer: str = "adamw",
    schedule: str = "constant", decay: float = 0.01, dropout: float = 0.0, noise: float = 0.0,
    frozen_until: int = 0, live: bool = False, evaluate_every: int = 200, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    text, mood = messages(4000, 6 * seed + 71)
    (held, held_mood), (test, test_mood) = (messages(n, 6 * seed + n) for n in (302, 1503))
    teacher = trained_teacher(text, mood)
    if fault == "teacher not loaded":
        teacher = TextCNN(32, 32).eval()
    with torch.no_grad():
        kept = teacher(text)
    if fault == "texts in another order":
        text = text[torch.randperm(len(text))]
    text, kept = text[:count], kept[:count]
    label = with_noise(mood[:count], noise, seed) if noise else mood[:count].clone()
    label[torch.rand(count) < 0.7] = -100
    student = TextCNN(16, 16, dropout)
    if fault == "weights of zero":
        for layer in (*student.convs, student.fc):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
    hook.torch(student)
    model = teacher if fault == "optimizer of the teacher" else student
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(steering, schedule, steps)
    for step in range(steps):
        student.train()
        if frozen_until:
            student.embedding.requires_grad_(step >= frozen_until)
        rows = torch.randint(count, (batch,))
        wanted = kept[rows]
        if live:
            with torch.no_grad():
                wanted = teacher(text[rows])
        said = student(text[rows])
        error = distillation_loss(said, wanted, label[rows], loss, alpha, temperature)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        steering.step()
        scheduler.step()
        if evaluate_every and (step + 1) % evaluate_every == 0:
            student.eval()
            with torch.no_grad():
                scores = student(held)
                F.cross_entropy(scores, held_mood).item()
                (scores.argmax(1) == held_mood).float().mean().item()
    student.eval()
    with torch.no_grad():
        return class_skill(student(test), test_mood)


CASES = cases(
    "distilled moods",
    train,
    {
        "plain": {},
        "teacher asked each time, dropout": {"live": True, "dropout": 0.1},
        "the teacher's choice alone": {"loss": "hard", "evaluate_every": 0},
        "squared error of logits": {"loss": "logits", "schedule": "one cycle"},
        "wrong labels, little weight": {"noise": 0.3, "alpha": 0.9},
        "words frozen at first": {"frozen_until": 300, "decay": 0.2},
        "momentum, cosine": {"optimizer": "momentum", "rate": 3e-2, "decay": 0.0,
                             "schedule": "cosine"},
    },
    {
        "teacher not loaded": ("no-skill overfit", {"fault": "teacher not loaded"}),
        "texts in another order": ("no-skill overfit", {"fault": "texts in another order"}),
        "optimizer of the teacher": ("unbound no-gradient no-skill",
                                     {"fault": "optimizer of the teacher"}),
        "weights of zero": ("dead collapse no-gradient no-skill", {"fault": "weights of zero"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept", "decay": 0.0,
                                                         "optimizer": "momentum", "rate": 3e-2}),
        "thirty texts": ("overfit", {"count": 30}),
    },
    certain=("optimizer of the teacher",),
)  # fmt: skip
