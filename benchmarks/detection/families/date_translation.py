"""Dates as people write them are translated to ISO form, with a GRU that attends to its input."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.detection.case import cases

PAD, SOS, EOS = 0, 1, 2
INPUT = "\0\1\2 ,./-0123456789abcdefghijlmnoprstuvy"
OUTPUT = "\0\1\2-0123456789"
FORMS = ("%d %b %Y", "%B %d, %Y", "%d/%m/%Y", "%Y.%m.%d", "%b %d %Y", "%d-%b-%y")
ISO_LENGTH = 11  # with the end


def human_dates(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    days = [date(1990, 1, 1) + timedelta(draw.randrange(12000)) for _ in range(count)]
    return [(day.strftime(draw.choice(FORMS)).lower(), day.isoformat()) for day in days]


def encode(text: str, letters: str) -> Tensor:
    return torch.tensor([*(letters.index(letter) for letter in text), EOS])


class DateDataset(torch.utils.data.Dataset):
    def __init__(self, texts: list[tuple[str, str]], fault: str = "") -> None:
        letters = OUTPUT if fault != "another vocabulary" else "\0\1\2" + OUTPUT[3:][::-1]
        self.sources = [encode(source, INPUT) for source, _ in texts]
        self.targets = [encode(target, letters) for _, target in texts]

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.sources[row], self.targets[row]


def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    sources, targets = zip(*rows, strict=True)
    return (
        pad_sequence(list(sources), batch_first=True, padding_value=PAD),
        pad_sequence(list(targets), batch_first=True, padding_value=PAD),
    )


def collate_lengthwise(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Sources in order of their length, as packing once asked for."""
    ordered = sorted(rows, key=lambda row: -len(row[0]))
    return collate(ordered)[0], collate(rows)[1]


class Seq2Seq(nn.Module):
    def __init__(self, size: int, fault: str, dropout: float, tied: bool) -> None:
        super().__init__()
        self.fault = fault
        self.embed_in = nn.Embedding(len(INPUT), 24, padding_idx=PAD)
        self.embed_out = nn.Embedding(len(OUTPUT), size if tied else 24)
        self.encoder = nn.GRU(24, size // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(size if tied else 24, size, batch_first=True)
        self.key = nn.Linear(size, size)
        self.mix = nn.Linear(2 * size, size)
        self.drop = nn.Dropout(dropout)
        self.project = nn.Linear(size, len(OUTPUT))
        if tied:
            self.project.weight = self.embed_out.weight

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        memory, last = self.encoder(self.drop(self.embed_in(source)))
        state = torch.cat([last[0], last[1]], 1).unsqueeze(0)
        if self.fault == "no attention":
            memory, state = torch.zeros_like(memory), torch.zeros_like(state)
        return memory, state, source == PAD

    def decode(self, words: Tensor, state: Tensor, memory: Tensor, pads: Tensor) -> Any:
        out, state = self.decoder(self.drop(self.embed_out(words)), state)
        energy = out @ self.key(memory).transpose(1, 2) / memory.shape[2] ** 0.5
        if self.fault == "mask turned":
            pads = ~pads
        energy = energy.masked_fill(pads[:, None], -1e9)
        if self.fault == "mask of zero":
            energy = energy + torch.log(pads[:, None].float() * 0.0)
        attention = energy.softmax(1 if self.fault == "softmax axis" else 2)
        context = torch.cat([out, attention @ memory], 2)
        return self.project(self.drop(torch.tanh(self.mix(context)))), state

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, state, pads = self.encode(source)
        start = torch.full_like(target[:, :1], SOS)
        words = torch.cat([start, target[:, :-1]], 1)
        if self.fault == "decoder sees the answer":
            words = target
        scores: Tensor = self.decode(words, state, memory, pads)[0]
        return scores

    @torch.no_grad()
    def greedy(self, source: Tensor) -> Tensor:
        memory, state, pads = self.encode(source)
        word = torch.full((len(source), 1), SOS)
        words = []
        for _ in range(ISO_LENGTH):
            scores, state = self.decode(word, state, memory, pads)
            word = scores.argmax(2)
            words.append(word)
        return torch.cat(words, 1)


def sequence_loss(scores: Tensor, target: Tensor, kind: str, smoothing: float) -> Tensor:
    if kind == "view":  # batch and time change places in one of the two
        return F.cross_entropy(scores.transpose(0, 1).flatten(0, 1), target.flatten())
    if kind == "shifted twice":
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), target[:, 1:].flatten())
    if kind == "softmax":
        return F.cross_entropy(scores.softmax(2).flatten(0, 1), target.flatten())
    if kind == "sum":
        return F.cross_entropy(
            scores.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
        )
    if kind == "first letter":
        return F.cross_entropy(scores[:, 0], target[:, 0])
    if kind == "mean over right dates":
        right = (scores.argmax(2) == target).all(1)
        entropy = F.cross_entropy(scores.flatten(0, 1), target.flatten(), reduction="none")
        return entropy.sum() / right.sum()
    return F.cross_entropy(
        scores.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=smoothing
    )


def translated(model: Seq2Seq, loader: Any) -> float:
    """The share of the letters of a date that greedy decoding gets right, above guessing."""
    model.eval()
    right, most, total = 0.0, torch.zeros(ISO_LENGTH, len(OUTPUT)), 0
    for source, target in loader:
        right += (model.greedy(source) == target).float().mean(1).sum().item()
        most += F.one_hot(target, len(OUTPUT)).sum(0)
        total += len(source)
    guess = most.max(1).values.mean().item() / total
    finite = all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
    return (right / total - guess) / (1 - guess) if finite else float("nan")


def train(
    seed: int, hook: Any, rate: float = 4e-3, epochs: int = 4, batch: int = 32, size: int = 48,
    optimizer: str = "adam", schedule: str = "constant", clip: float = 1.0, loss: str = "",
    scale: float = 1.0, smoothing: float = 0.0, dropout: float = 0.0, decay: float = 0.0,
    noise: float = 0.0, accumulate: int = 1, half: bool = False, tied: bool = False,
    curriculum: bool = False, sampling: float = 0.0, start: float = 0.0, frozen: str = "",
    evaluates: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    texts = human_dates(40 if fault == "forty dates" else 2400, seed + 600)
    if noise:
        draw = random.Random(seed)
        texts = [(s, draw.choice(texts)[1] if draw.random() < noise else t) for s, t in texts]
    if fault == "day and month":
        texts = [(s, f"{t[:5]}{t[8:]}-{t[5:7]}") for s, t in texts]
    if fault == "targets of another file":
        texts = [(s, t) for (s, _), (_, t) in zip(texts, texts[1:] + texts[:1], strict=True)]
    train_iter = torch.utils.data.DataLoader(
        DateDataset(texts, fault),
        batch_size=batch,
        shuffle=True,
        collate_fn=collate_lengthwise if fault == "sources sorted alone" else collate,
    )
    lessons = DateDataset(sorted(texts, key=lambda text: len(text[0])))
    short_first = torch.utils.data.DataLoader(lessons, batch_size=batch, collate_fn=collate)
    valid = DateDataset(human_dates(300, seed + 601))
    valid_iter = torch.utils.data.DataLoader(valid, batch_size=100, collate_fn=collate)
    model = Seq2Seq(size, fault, dropout, tied)
    if start:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -start, start)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not (frozen and name.startswith(frozen)))
    learned = [p for p in model.parameters() if p.requires_grad]
    if fault == "decoder left out":
        learned = [*model.encoder.parameters(), *model.embed_in.parameters()]
    adapt = optimizer_of(optimizer, learned, rate, decay)
    scheduler = scheduler_of(adapt, schedule, epochs * len(train_iter) // accumulate)
    hook.torch(model)
    for epoch in range(epochs):
        model.train()
        batches = short_first if curriculum and epoch == 0 else train_iter
        for number, (source, target) in enumerate(batches):
            if fault == "source reversed":
                source = source.flip(1)
            given = target
            if sampling:
                other = torch.randint(4, len(OUTPUT), target.shape)
                given = torch.where(torch.rand(target.shape) < sampling, other, target)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                scores = model(source, given).float()
                output = scale * sequence_loss(scores, target, loss, smoothing)
            (output / accumulate).backward()
            if (number + 1) % accumulate == 0:
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                adapt.step()
                if fault != "never zeroed":
                    adapt.zero_grad()
                scheduler.step()
        if evaluates:
            translated(model, valid_iter)
    return translated(model, valid_iter)


CASES = cases(
    "date translation",
    train,
    {
        "plain": {},
        "AdamW with decay": {"optimizer": "adamw", "decay": 0.01},
        "batch of four": {"batch": 4, "rate": 2e-3, "epochs": 1},
        "batch of 512": {"batch": 512, "rate": 1.5e-2, "epochs": 16},
        "loss x 10,000": {"scale": 1e4, "clip": 0.0},
        "sum over all letters": {"loss": "sum", "clip": 5.0},
        "warm-up": {"schedule": "warmup", "rate": 8e-3},
        "one cycle": {"schedule": "one cycle", "rate": 1e-2},
        "label smoothing": {"smoothing": 0.1},
        "dropout": {"dropout": 0.1, "epochs": 6},
        "weights tied": {"tied": True},
        "answers with noise": {"noise": 0.05, "epochs": 6},
        "letters given with noise": {"sampling": 0.1},
        "accumulation": {"batch": 8, "accumulate": 4},
        "bfloat16": {"half": True},
        "short dates first": {"curriculum": True, "epochs": 5},
        "embeddings frozen": {"frozen": "embed"},
        "uniform start": {"start": 0.2},
        "no clipping": {"clip": 0.0},
        "no evaluation": {"evaluates": False},
    },
    {
        "answers of the next line": ("no-skill overfit", {"fault": "targets of another file"}),
        "day and month exchanged": ("worse overfit no-skill", {"fault": "day and month"}),
        "vocabulary in another order": ("worse inputs no-skill", {"fault": "another vocabulary"}),
        "source reversed in training": ("inputs", {"fault": "source reversed"}),
        "sources sorted alone": ("no-skill", {"fault": "sources sorted alone"}),
        "decoder sees the answer": ("leak", {"fault": "decoder sees the answer"}),
        "target shifted twice": ("no-skill leak", {"loss": "shifted twice"}),
        "batch and time exchanged": ("no-skill", {"loss": "view"}),
        "first letter alone": ("ignored collapse", {"loss": "first letter"}),
        "mask turned": ("inputs no-skill", {"fault": "mask turned"}),
        "log of the mask": ("not-finite", {"fault": "mask of zero"}),
        "attention over the letters written": ("softmax-axis", {"fault": "softmax axis"}),
        "encoder not passed on": ("inputs no-gradient no-skill", {"fault": "no attention"}),
        "softmax in the model": ("probabilities slow no-skill", {"loss": "softmax", "rate": 5e-4}),
        "divided by no right date": ("not-finite", {"loss": "mean over right dates"}),
        "decoder left out of the optimizer": ("unbound", {"fault": "decoder left out"}),
        "gradients never zeroed": (
            "kept-gradients fast",
            {"fault": "never zeroed", "clip": 0.0, "rate": 0.02},
        ),
        "rate x 250": ("fast saturated no-skill", {"rate": 1.0}),
        "rate / 400": ("slow no-skill", {"rate": 1e-5}),
        "forty dates": ("overfit", {"fault": "forty dates", "epochs": 120}),
        "weight decay of one": ("collapse no-skill", {"decay": 1.0}),
        "schedule ends early": ("schedule slow", {"schedule": "ends early"}),
    },
)
