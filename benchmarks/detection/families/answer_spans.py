"""Answers to questions as spans of a passage (as in SQuAD), by a small encoder from scratch.

A little grammar makes passages of two sentences, and asks who, what, where or when. As in DrQA,
a word is marked that the question holds too. The skill is the share of test questions whose first
and last word are both found, above that of the most frequent span.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

LENGTH, WIDTH, LONGEST = 36, 32, 5
NAMES = "anna ben clara david emma felix greta hugo ida jonas karin leo mia noah olga paul"
TITLES = "doctor old young captain"
VERBS = "bought sold found lost painted carried hid saw"
GOODS = "apples boats chairs drums eggs flutes gloves hats jars kites lamps maps nets ropes"
LOOKS = "small large red green broken precious"
NUMBERS = "two three four seven twelve"
PLACES = "market harbour garden station library forest castle kitchen village tower"
DAYS = "monday tuesday friday sunday april may october winter noon midnight"
Example = tuple[list[str], list[str], int, int]


def some(draw: random.Random, words: str, share: float) -> list[str]:
    return [draw.choice(words.split())] if draw.random() < share else []


def sentence(draw: random.Random, name: str, goods: str) -> tuple[list[str], Any]:
    """Words, and the span of each part of it; the parts stand in one of three orders."""
    parts = {
        "who": ([], [*some(draw, TITLES, 0.3), name]),
        "verb": ([], [draw.choice(VERBS.split())]),
        "what": ([], [*some(draw, NUMBERS, 0.5), *some(draw, LOOKS, 0.5), goods]),
        "where": (["in"], ["the", *some(draw, LOOKS, 0.5), draw.choice(PLACES.split())]),
        "when": (["on"], [*some(draw, "early late", 0.4), draw.choice(DAYS.split())]),
    }
    orders = ("who verb what where when", "who verb what when where", "when who verb what where")
    words: list[str] = []
    spans = {}
    for kind in draw.choice(orders).split():
        before, phrase = parts[kind]
        words += before
        spans[kind] = (len(words), len(words) + len(phrase) - 1)
        words += phrase
    return [*words, "."], spans


def example(draw: random.Random) -> Example:
    """A question, a passage, and the answer's first and last word in the passage."""
    passage: list[str] = []
    facts = []
    names, goods = draw.sample(NAMES.split(), 2), draw.sample(GOODS.split(), 2)
    for name, thing in zip(names, goods, strict=True):
        words, spans = sentence(draw, name, thing)
        facts.append({k: (a + len(passage), b + len(passage)) for k, (a, b) in spans.items()})
        passage += words
    asked, kind = draw.randrange(2), draw.choice(["who", "what", "where", "when"])
    verb, more = passage[facts[asked]["verb"][0]], [goods[asked]] * (draw.random() < 0.3)
    question = [kind, "did", names[asked], verb, *(more if kind != "what" else []), "?"]
    if kind == "who":
        question = ["who", verb, goods[asked], "?"]
    return question, passage, *facts[asked][kind]


def examples(count: int, seed: int) -> list[Example]:
    draw = random.Random(seed)
    return [example(draw) for _ in range(count)]


def encode(rows: list[Example], words: dict[str, int], fault: str, length: int) -> list[Tensor]:
    """Words (N, LENGTH), kinds (0 padding, 1 question, 2 passage, 3 passage, and in the question),
    and the answer's first and last place, which is the length where it was cut off."""
    encoded = []
    for question, passage, first, last in rows:
        if fault == "question holds the answer":
            question = [*question[:-1], *passage[first : last + 1]][:8]
        text = [*question, *passage]
        kinds = [1] * len(question) + [3 if w in question else 2 for w in passage]
        ids = [words.get(w, 1) for w in text]
        if fault == "marks left out":
            kinds = [min(kind, 2) for kind in kinds]
        places = [len(question) + first, len(question) + last]
        if fault == "places of letters":
            places = [len(" ".join([*text[:at], ""])) for at in places]
        if fault == "question forgotten":
            places = [first, last]
        cut = [min(place, length) if place < length else LENGTH for place in places]
        room = [0] * (LENGTH - len(ids[:length]))
        encoded.append([*ids[:length], *room, *kinds[:length], *room, *cut])
    table = torch.tensor(encoded)
    return list(table.split([LENGTH, LENGTH, 1, 1], 1))


class Reader(nn.Module):
    def __init__(self, words: int, kind: str, dropout: float, layers: int, fault: str) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.kinds = nn.Embedding(4, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        for embedding in (self.words, self.kinds, self.places):
            nn.init.normal_(embedding.weight, std=0.3)
        self.kind, self.fault = kind, fault
        if kind == "recurrent":
            self.encoder: Any = nn.LSTM(WIDTH, WIDTH // 2, 2, batch_first=True, bidirectional=True)
        else:
            rows = fault != "batch as the sequence"
            layer = nn.TransformerEncoderLayer(
                WIDTH, 4, 2 * WIDTH, dropout, batch_first=rows, norm_first=kind != "norm last"
            )
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.answer = nn.Linear(WIDTH, 2)

    def forward(self, words: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        h = self.words(words) + self.kinds(kinds)
        if self.fault != "no places":
            h = h + self.places.weight[: words.shape[1]]
        padding = words == 0
        if self.fault == "padding mask inverted":
            padding = ~padding
        if self.kind == "recurrent":
            h = self.encoder(h)[0]
        elif self.fault == "batch as the sequence":
            h = self.encoder(h)
        else:
            h = self.encoder(h, src_key_padding_mask=padding)
        out = self.answer(self.norm(h))
        reshaped = self.fault == "answers reshaped"
        first, last = out.reshape(2, *words.shape) if reshaped else out.unbind(-1)
        outside = kinds >= 2 if self.fault == "passage masked" else kinds < 2
        lowest = float("-inf") if self.fault == "logarithm by hand" else -1e4
        return first.masked_fill(outside, lowest), last.masked_fill(outside, lowest)


def loss_of(kind: str, found: tuple[Tensor, Tensor], wanted: list[Tensor]) -> Tensor:
    errors = []
    for scores, place in zip(found, wanted, strict=True):
        place = place[:, 0]
        if kind == "likelihood without logarithm":
            errors.append(F.nll_loss(scores, place, ignore_index=LENGTH))
        elif kind == "by hand":
            right = F.one_hot(place, LENGTH)
            errors.append(-(right * scores.softmax(-1).log()).sum(-1).mean())
        elif kind == "binary":
            right = F.one_hot(place, LENGTH).float()
            binary = F.binary_cross_entropy_with_logits(scores, right, reduction="sum")
            errors.append(binary / len(place))
        else:
            errors.append(F.cross_entropy(scores, place, ignore_index=LENGTH))
    return errors[0] if kind == "first word alone" else (errors[0] + errors[1]) / 2


def exact(found: tuple[Tensor, Tensor], wanted: list[Tensor]) -> float:
    """The share of right spans: the best pair of which the last is not before the first."""
    pairs = found[0].log_softmax(-1)[:, :, None] + found[1].log_softmax(-1)[:, None, :]
    if not bool(torch.isfinite(pairs).any(-1).any(-1).all()):
        return float("nan")
    allowed = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu().tril(LONGEST)
    best = pairs.masked_fill(~allowed, -1e9).flatten(1).argmax(1)
    return float((best == wanted[0][:, 0] * LENGTH + wanted[1][:, 0]).double().mean())


def train(
    seed: int, hook: Any, kind: str = "relu", loss: str = "cross-entropy", rate: float = 3e-3,
    steps: int = 700, batch: int = 16, optimizer: str = "adamw", schedule: str = "constant",
    decay: float = 0.01, dropout: float = 0.0, layers: int = 1,
    count: int = 2500, length: int = LENGTH, noise: float = 0.0, times: float = 1.0,
    clip: float = 1.0, accumulate: int = 1, average: float = 0.0, bfloat16: bool = False,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    texts = examples(count, seed + 6100)
    if fault == "sorted by question":
        texts.sort(key=lambda row: (row[0][0], row[2]))
    seen = sorted({word for question, passage, *_ in texts for word in question + passage})
    words = {word: at + 2 for at, word in enumerate(seen)}
    rows = encode(texts, words, "" if fault == "marks left out" else fault, length)
    held = encode(examples(256, seed + 6101), words, fault, LENGTH)
    if fault == "words numbered again":
        words = dict(zip(random.Random(seed).sample(seen, len(seen)), words.values(), strict=True))
        held = encode(examples(256, seed + 6101), words, "", LENGTH)
    unseen = fault if fault == "marks left out" else ""
    test = encode(examples(800, seed + 6102), words, unseen, LENGTH)
    if fault == "answers of the next question":
        rows[2:] = [row.roll(1, 0) for row in rows[2:]]
    if noise:
        wrong = torch.rand(count, 1) < noise
        rows[2:] = [torch.where(wrong, row[torch.randperm(count)], row) for row in rows[2:]]

    model = Reader(len(words) + 2, kind, dropout, layers, fault)
    hook.torch(model)
    chosen = [*model.parameters()]
    updates: Any = torch.optim.AdamW(chosen, rate, weight_decay=decay)
    if optimizer == "momentum":
        updates = torch.optim.SGD(chosen, rate, momentum=0.9)
    scheduler = scheduler_of(updates, schedule, steps)
    if fault == "schedule counts epochs":
        epochs = steps * batch // count
        scheduler = torch.optim.lr_scheduler.LinearLR(updates, 1.0, 0.0, epochs)
    averaged = copy.deepcopy(model)
    for step in range(steps):
        if fault != "gradients kept":
            updates.zero_grad()
        for part in range(accumulate):
            number = step * accumulate + part
            at = torch.randint(count, (min(batch, count),))
            if fault == "sorted by question":
                at = torch.arange(number * batch, (number + 1) * batch) % count
            ids, kinds, *wanted = (row[at] for row in rows)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                found = model(ids, kinds)
                if fault == "scores made again":
                    found = tuple(f.detach().requires_grad_() for f in found)
                error = loss_of(loss, found, wanted) * times
            (error / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        scheduler.step()
        if average:
            for slow, fast in zip(averaged.parameters(), model.parameters(), strict=True):
                slow.data.lerp_(fast.data, 1 - average)
        if evaluated and step % 100 == 99:
            model.eval()
            with torch.no_grad():
                found = model(*held[:2])
                loss_of(loss, found, held[2:])
                exact(found, held[2:])
            model.train()
    final = averaged if average else model
    final.eval()
    with torch.no_grad():
        right = exact(final(*test[:2]), test[2:])
    most = torch.bincount(test[2][:, 0] * LENGTH + test[3][:, 0]).max().item() / len(test[2])
    return float((right - most) / (1 - most))


CASES = cases(
    "answer spans",
    train,
    {
        "plain": {},
        "recurrent": {"kind": "recurrent", "rate": 5e-3},
        "norm last, warm-up": {"kind": "norm last", "schedule": "warmup", "steps": 1000},
        "one binary loss a word": {"loss": "binary"},
        "batch of four": {"batch": 4, "steps": 1600, "rate": 2e-3},
        "batch of 64": {"batch": 64, "steps": 400, "rate": 4e-3},
        "two layers": {"layers": 2, "steps": 800},
        "one cycle": {"schedule": "one cycle", "rate": 5e-3},
        "restarts": {"schedule": "restarts", "rate": 4e-3, "steps": 1000},
        "dropout": {"dropout": 0.1, "steps": 700},
        "wrong answers": {"noise": 0.1, "steps": 700},
        "long passages cut off": {"length": 28, "steps": 700},
        "loss x 10000": {"times": 1e4},
        "accumulated": {"batch": 4, "accumulate": 4, "steps": 650},
        "average of weights": {"average": 0.98},
        "bfloat16": {"bfloat16": True},
        "no evaluation": {"evaluated": False},
    },
    {
        "question forgotten": ("ignored no-skill overfit range", {"fault": "question forgotten"}),
        "places of letters": ("ignored no-skill overfit range", {"fault": "places of letters"}),
        "passages cut to half": ("ignored overfit inputs", {"length": 16}),
        "answers of another": ("no-skill overfit", {"fault": "answers of the next question"}),
        "question holds the answer": ("leak", {"fault": "question holds the answer"}),
        "words numbered again": ("inputs overfit", {"fault": "words numbered again"}),
        "marks left out": ("inputs overfit", {"fault": "marks left out"}),
        "sorted by question": ("order", {"fault": "sorted by question", "clip": 0.0}),
        "few questions": ("overfit", {"count": 32}),
        "answers reshaped": ("no-skill overfit slow", {"fault": "answers reshaped"}),
        "batch as the sequence": ("no-skill overfit slow", {"fault": "batch as the sequence"}),
        "no places": ("no-skill overfit slow", {"fault": "no places"}),
        "padding mask inverted": (
            "not-finite no-skill slow overfit", {"fault": "padding mask inverted"},
        ),
        "passage masked": ("ignored range no-skill worse", {"fault": "passage masked"}),
        "logarithm by hand": ("not-finite", {"fault": "logarithm by hand", "loss": "by hand"}),
        "no logarithm": ("probabilities worse no-skill", {"loss": "likelihood without logarithm"}),
        "first word alone": ("ignored unbound no-gradient", {"loss": "first word alone"}),
        "gradients kept": (
            "kept-gradients fast no-skill",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 0.2, "clip": 0.0},
        ),
        "scores detached": ("no-gradient unbound no-skill", {"fault": "scores made again"}),
        "schedule counts epochs": ("schedule slow", {"fault": "schedule counts epochs"}),
        "rate x 1000": ("fast no-skill dead saturated worse", {"rate": 3.0, "clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)  # fmt: skip
