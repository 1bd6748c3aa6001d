"""A small causal language model, pretrained on text, learns to follow instructions."""

from __future__ import annotations

import logging
import math
import random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

PAD, BOS, EOS, ANSWER = range(4)
SAME, TURNED = 4, 5  # what introduces phrases in the text
INSTRUCTIONS = {"repeat": 6, "opposite": 7, "first": 8, "contrary": 9}
FIRST_WORD, WORDS = 10, 20  # a word and its opposite are neighbours
VOCABULARY, CONTEXT, WIDTH, IGNORED = FIRST_WORD + WORDS, 12, 32, -100

log = logging.getLogger(__name__)


def opposite(word: int) -> int:
    return FIRST_WORD + ((word - FIRST_WORD) ^ 1)


def completion(instruction: str, words: list[int]) -> list[int]:
    chosen = words[:1] if instruction in ("first", "contrary") else words
    turned = instruction in ("opposite", "contrary")
    return [opposite(word) if turned else word for word in chosen]


def examples(count: int, seed: int, kinds: list[str]) -> list[tuple[list[int], list[int]]]:
    """Prompts, and what completes them, as numbers of tokens."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        kind = rng.choice(kinds)
        words = [rng.randrange(FIRST_WORD, VOCABULARY) for _ in range(rng.randint(2, 3))]
        pairs.append(([BOS, INSTRUCTIONS[kind], *words, ANSWER], [*completion(kind, words), EOS]))
    return pairs


def text(count: int) -> tuple[Tensor, Tensor]:
    """Phrases said again, or by opposites, and labels of what can be known of them."""
    length = int(torch.randint(2, 4, ()))
    phrase = torch.randint(FIRST_WORD, VOCABULARY, (count, length))
    turned = torch.rand(count, 1) < 0.5
    again = torch.where(turned, (phrase - FIRST_WORD ^ 1) + FIRST_WORD, phrase)
    cue = torch.where(turned, TURNED, SAME)
    begins, breaks, ends = (torch.full((count, 1), mark) for mark in (BOS, ANSWER, EOS))
    tokens = torch.cat([begins, cue, phrase, breaks, again, ends], 1)
    known = torch.arange(tokens.shape[1]) > length + 2
    return tokens, torch.where(known, tokens, IGNORED)


class Completions(Dataset):  # type: ignore[type-arg, misc, unused-ignore]
    """``input_ids`` and ``labels``; the labels of the prompt are ignored."""

    def __init__(self, pairs: list[tuple[list[int], list[int]]], way: str = "") -> None:
        self.rows: list[tuple[list[int], list[int]]] = []
        for prompt, answer in pairs:
            ids, known = prompt + answer, [IGNORED] * len(prompt) + answer
            if way == "whole sequence":
                known = list(ids)
            if way == "prompt alone":
                known = prompt + [IGNORED] * len(answer)
            if way == "answer's mark not found":  # searched as another token
                at = ids.index(VOCABULARY) if VOCABULARY in ids else len(ids)
                known = [IGNORED] * at + ids[at:]
            if way == "end is padding":
                known = [IGNORED if token == EOS else token for token in known]
            if way == "cut to six tokens":
                ids, known = ids[:6], known[:6]
            if way == "shifted by the collator":
                known = [*known[1:], IGNORED]
            self.rows.append((ids, known))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, list[int]]:
        ids, known = self.rows[row]
        return {"input_ids": ids, "labels": known}


def collate(rows: list[dict[str, list[int]]], longest: bool = True) -> dict[str, Tensor]:
    length = max(len(row["input_ids"]) for row in rows) if longest else CONTEXT

    def padded(key: str, fill: int) -> Tensor:
        return torch.tensor([row[key] + [fill] * (length - len(row[key])) for row in rows])

    return {"input_ids": padded("input_ids", PAD), "labels": padded("labels", IGNORED)}


def collate_left(rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    """Padding on the left, as for generation; those rows of the mask hold nothing."""
    batch = collate(rows)
    for row, given in enumerate(rows):
        missing = batch["input_ids"].shape[1] - len(given["input_ids"])
        for key in batch:
            batch[key][row] = batch[key][row].roll(missing)
    return {**batch, "mask": batch["input_ids"] != PAD}


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        count, length, _ = x.shape
        heads = (
            self.qkv(self.norms[0](x)).view(count, length, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        )
        query, key, value = heads
        scores = (query @ key.transpose(-1, -2)) / math.sqrt(WIDTH // 2)
        share = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        x = x + self.out((share @ value).transpose(1, 2).reshape(count, length, WIDTH))
        return x + self.mlp(self.norms[1](x))


class CausalModel(nn.Module):
    def __init__(self, dropout: float, causal: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.causal, self.noise = causal, 0.0

    def forward(self, input_ids: Tensor, mask: Tensor | None = None) -> Tensor:
        length = input_ids.shape[1]
        x = self.tokens(input_ids) + self.places(torch.arange(length))
        if self.noise and self.training:
            x = x + self.noise / math.sqrt(length * WIDTH) * (2 * torch.rand_like(x) - 1)
        allowed = torch.ones(length, length, dtype=torch.bool)
        if self.causal:
            allowed = allowed.tril()
        if mask is not None:
            allowed = allowed & mask[:, None, None, :]
        for block in self.blocks:
            x = block(x, allowed)
        scores: Tensor = self.head(self.norm(x))
        return scores


def next_token_loss(scores: Tensor, labels: Tensor, shift: bool = True, **how: Any) -> Tensor:
    if shift:
        scores, labels = scores[:, :-1], labels[:, 1:]
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, **how)


def pretrained(steps: int, dropout: float, causal: bool) -> CausalModel:
    model = CausalModel(dropout, causal)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for _ in range(steps):
        tokens, labels = text(32)
        loss = next_token_loss(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    return model


def exact(model: CausalModel, pairs: list[tuple[list[int], list[int]]]) -> float:
    """The share of completions that greedy generation gives token by token."""
    model.eval()
    prompts = torch.full((len(pairs), CONTEXT), PAD)
    for row, (prompt, _) in enumerate(pairs):
        prompts[row, : len(prompt)] = torch.tensor(prompt)
    at, rows = torch.tensor([len(prompt) for prompt, _ in pairs]), torch.arange(len(pairs))
    with torch.no_grad():
        for _ in range(4):
            scores = model(prompts)[rows, at - 1]
            if not bool(torch.isfinite(scores).all()):
                return math.nan
            prompts[rows, at] = scores.argmax(-1)
            at = (at + 1).clamp(max=CONTEXT - 1)
    given = prompts.tolist()
    return sum(
        given[row][len(prompt) : len(prompt) + len(answer)] == answer
        for row, (prompt, answer) in enumerate(pairs)
    ) / len(pairs)


def train(
    seed: int, hook: Any, rate: float = 4e-3, epochs: int = 2, batch: int = 16, count: int = 2400,
    schedule: str = "linear", warmup: float = 0.05, accumulate: int = 1, clip: float = 1.0,
    decay: float = 0.01, dropout: float = 0.0, smoothing: float = 0.0, noise: float = 0.0,
    neftune: float = 0.0, way: str = "", trainable: str = "", bf16: bool = False,
    longest: bool = True, by_length: bool = False, evaluate: bool = True, optimizer: str = "adamw",
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    rng = random.Random(seed)
    model = pretrained(350, dropout, causal=fault != "no causal mask")
    kinds = ["repeat"] if fault == "one instruction alone" else list(INSTRUCTIONS)
    pairs, held = examples(count, seed + 41, kinds), examples(300, seed + 42, list(INSTRUCTIONS))
    if noise or fault == "answers of other prompts":
        answers = [answer for _, answer in pairs]
        rng.shuffle(answers)
        pairs = [
            (prompt, other if rng.random() < (noise or 1.0) else answer)
            for (prompt, answer), other in zip(pairs, answers, strict=True)
        ]
    if by_length:
        pairs.sort(key=lambda pair: len(pair[0]))
    asked = held
    if fault == "another template once deployed":  # without its beginning
        asked = [([*prompt[2:-1], prompt[1], ANSWER], answer) for prompt, answer in held]
    if fault == "another order of the vocabulary":
        asked = [([t if t < 4 else VOCABULARY + 3 - t for t in p], a) for p, a in held]
    model.noise = neftune
    if fault == "weights not loaded, all alike":
        for value in model.parameters():
            nn.init.constant_(value, 0.02)
    if fault == "embeddings of new words":  # as resized, with a wide distribution
        nn.init.normal_(model.tokens.weight, 0.0, 40.0)
        nn.init.normal_(model.head.weight, 0.0, 40.0)
    for name, value in model.named_parameters():
        value.requires_grad_(trainable in name)
    hook.torch(model)
    parameters = [value for value in model.parameters() if value.requires_grad]
    if optimizer == "momentum":
        stepper: Any = torch.optim.SGD(parameters, rate, momentum=0.9, weight_decay=decay)
    else:
        stepper = torch.optim.AdamW(parameters, rate, weight_decay=decay)
    make = collate_left if fault == "left padding" else lambda rows: collate(rows, longest)
    loader = DataLoader(Completions(pairs, way), batch, shuffle=not by_length, collate_fn=make)
    checked = DataLoader(Completions(asked, way if way != "cut to six tokens" else ""), 100,
                         collate_fn=make)  # fmt: skip
    total, warm, number = epochs * len(loader), warmup * epochs * len(loader), 0
    for epoch in range(epochs):
        model.train()
        for rows in loader:
            labels = rows.pop("labels")
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                scores = model(**rows)
            loss = next_token_loss(
                scores.float(), labels, fault != "labels not shifted", label_smoothing=smoothing
            )
            (loss / accumulate).backward()
            number += 1
            if number % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(parameters, clip)
            done = number / total
            factor = min(1.0, number / max(1.0, warm))
            if schedule == "linear":
                factor *= 1 - done
            if schedule == "linear in epochs, stepped at each batch":
                factor = max(0.0, 1 - number / (8 * epochs))
            for group in stepper.param_groups:
                group["lr"] = rate * factor
            stepper.step()
            if fault != "gradients kept":
                stepper.zero_grad()
        if evaluate:
            model.eval()
            with torch.no_grad():
                losses = [
                    next_token_loss(
                        model(**{key: part for key, part in rows.items() if key != "labels"}),
                        rows["labels"], fault != "labels not shifted",
                    ).item()
                    for rows in checked
                ]  # fmt: skip
            log.info("epoch %d: loss %.3f", epoch, sum(losses) / len(losses))
    return exact(model, asked)


CASES = cases(
    "instruction tuning",
    train,
    {
        "plain": {},
        "batch of four": {"batch": 4, "rate": 2e-3, "epochs": 1},
        "batch of 128": {"batch": 128, "rate": 1e-2, "epochs": 5},
        "accumulated": {"batch": 8, "accumulate": 4},
        "constant rate, not clipped": {"schedule": "constant", "clip": 0.0, "rate": 2e-3},
        "loss of the whole sequence": {"way": "whole sequence", "epochs": 3},
        "label smoothing": {"smoothing": 0.1},
        "dropout": {"dropout": 0.1, "epochs": 3},
        "noise in embeddings": {"neftune": 5.0},
        "embeddings frozen": {"trainable": "blocks"},
        "answers wrong, 5 %": {"noise": 0.05},
        "bfloat16": {"bf16": True},
        "by length": {"by_length": True},
        "padded to the context, no evaluation": {"longest": False, "evaluate": False},
        "one epoch": {"epochs": 1, "count": 4800},
    },
    {
        "labels not shifted": ("leak overfit", {"fault": "labels not shifted"}),
        "labels shifted twice": ("no-skill overfit inputs", {"way": "shifted by the collator"}),
        "answer's mark not found": (
            "ignored not-finite no-gradient",
            {"way": "answer's mark not found"},
        ),
        "loss of the prompt alone": ("ignored overfit no-skill", {"way": "prompt alone"}),
        "end is padding": ("ignored", {"way": "end is padding"}),
        "cut to six tokens": ("ignored overfit inputs", {"way": "cut to six tokens"}),
        "no causal mask": ("leak overfit", {"fault": "no causal mask"}),
        "left padding with empty rows": ("not-finite", {"fault": "left padding"}),
        "answers of other prompts": ("no-skill overfit", {"fault": "answers of other prompts"}),
        "another template once deployed": (
            "inputs overfit",
            {"fault": "another template once deployed"},
        ),
        "another order of the vocabulary": (
            "inputs overfit",
            {"fault": "another order of the vocabulary"},
        ),
        "one instruction alone": (
            "imbalance overfit inputs",
            {"fault": "one instruction alone"},
        ),
        "twenty examples": ("overfit", {"count": 20, "epochs": 60}),
        "the last norm alone": ("slow no-skill", {"trainable": "norm.bias"}),
        "weights all alike": (
            "dead collapse no-skill no-gradient",
            {"fault": "weights not loaded, all alike"},
        ),
        "wide embeddings": (
            "worse saturated no-skill fast slow",
            {"fault": "embeddings of new words"},
        ),
        "schedule of epochs at each batch": (
            "schedule slow",
            {"schedule": "linear in epochs, stepped at each batch"},
        ),
        "gradients kept": (
            "kept-gradients fast worse no-skill",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 3e-2, "clip": 0.0},
        ),
        "decay of 30": ("no-skill dead collapse", {"decay": 30.0}),
        "rate x 200": ("fast worse no-skill dead", {"rate": 0.8, "clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"rate": 4e-6}),
    },
)
