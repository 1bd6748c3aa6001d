"""Pictures matched with their captions as CLIP does: two encoders, a loss of both directions.

The captions name size, colour, shape, corner and background. The skill is recall at 1 of 128
held-out pictures among as many captions, in both directions, above chance.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, WIDTH, LENGTH = 12, 32, 10
SIZES, COLOURS, SHAPES = (
    ("small", "large"),
    ("red", "green", "blue", "yellow"),
    ("disc", "box", "bar"),
)
UPS, SIDES, GROUNDS = ("upper", "lower"), ("left", "right"), ("black", "grey", "white")
WORDS = ["<pad>", "<start>", "<end>", "a", "in", "the", "corner", "on",
         *SIZES, *COLOURS, *SHAPES, *UPS, *SIDES, *GROUNDS]  # fmt: skip
ONE_OF = (len(SIZES), len(COLOURS), len(SHAPES), len(UPS), len(SIDES), len(GROUNDS))
PAINT = torch.tensor([[220.0, 40, 40], [40, 190, 40], [50, 60, 220], [220, 210, 50]])


def facts(count: int, seed: int) -> Tensor:
    """(N, 6): a number for size, colour, shape, up or down, side and background."""
    draw = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(n, (count,), generator=draw) for n in ONE_OF], 1)


def draw_pictures(of: Tensor, seed: int) -> Tensor:
    """(N, 3, SIDE, SIDE) in 0 to 255."""
    draw = torch.Generator().manual_seed(seed)
    size, colour, shape, up, side, ground = of.T.view(6, -1, 1, 1)
    jitter = torch.randint(-1, 2, (2, len(of), 1, 1), generator=draw)
    down = (torch.arange(SIDE).view(1, -1, 1) - (3 + 5 * up) - jitter[0]).abs()
    right = (torch.arange(SIDE).view(1, 1, -1) - (3 + 5 * side) - jitter[1]).abs()
    reach = 1 + size
    disc, box = down**2 + right**2 <= reach**2 + 0.5, torch.maximum(down, right) <= reach
    bar = (down <= 0) & (right <= reach + 1)
    inside = torch.where(shape == 0, disc, torch.where(shape == 1, box, bar))[:, None]
    paint = PAINT[colour.flatten()][:, :, None, None]
    picture = torch.where(inside, paint, 110.0 * ground[:, None] + 10)
    noise = 12 * torch.randn(picture.shape, generator=draw)
    return (picture + noise).clamp(0, 255).round()


def tokens(of: Tensor, brief: int = LENGTH + 3) -> Tensor:
    """Captions (N, LENGTH + 3), padded at the end."""
    number = {word: place for place, word in enumerate(WORDS)}
    rows = []
    for size, colour, shape, up, side, ground in of.tolist():
        words = ["a", SIZES[size], COLOURS[colour], SHAPES[shape]]
        words += ["in", "the", UPS[up], SIDES[side], "corner"]
        words += ["on", GROUNDS[ground]] if ground else []
        words = ["<start>", *words[: brief - 2], "<end>"]
        rows.append([number[w] for w in words] + [0] * (LENGTH + 3 - len(words)))
    return torch.tensor(rows)


class Clip(nn.Module):
    def __init__(self, pooled: str, dropout: float, temperature: float, text: str) -> None:
        super().__init__()
        self.pooled, self.text_kind = pooled, text
        self.visual = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 9, 64), nn.ReLU(), nn.Dropout(dropout),
        )  # fmt: skip
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH + 3, WIDTH))
        self.text = nn.TransformerEncoderLayer(
            WIDTH, 2, 64, dropout, batch_first=True, norm_first=True
        )
        self.final = nn.LayerNorm(WIDTH)
        self.visual_projection = nn.Linear(64, WIDTH, bias=False)
        self.text_projection = nn.Linear(WIDTH, WIDTH, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))
        nn.init.normal_(self.words.weight, std=0.3)

    def encode_text(self, words: Tensor) -> Any:
        x = self.words(words) + self.places
        if self.text_kind == "bag":
            real = (words != 0)[..., None]
            pooled = (self.words(words) * real).sum(1) / real.sum(1)
            return self.text_projection(self.final(pooled))
        later = torch.ones(words.shape[1], words.shape[1], dtype=torch.bool).triu(1)
        x = self.final(self.text(x, src_mask=later))
        if self.pooled == "start":
            x = x[:, 0]
        else:
            x = x[torch.arange(len(x)), (words == 2).long().argmax(1)]
        return self.text_projection(x)

    def forward(self, pictures: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        seen, said = self.visual_projection(self.visual(pictures)), self.encode_text(words)
        if self.pooled == "relu":
            seen, said = F.relu(seen - 0.5), F.relu(said - 0.5)
            return seen / seen.norm(dim=1, keepdim=True), said / said.norm(
                dim=1, keepdim=True
            ), self.logit_scale.exp()  # fmt: skip
        return F.normalize(seen, dim=1), F.normalize(said, dim=1), self.logit_scale.exp()


def contrast(kind: str, seen: Tensor, said: Tensor, scale: Tensor, smoothing: float) -> Tensor:
    scores = scale * seen @ said.T
    right = torch.arange(len(scores))
    if kind == "all zero":
        right = torch.zeros_like(right)
    if kind == "pulls alone":
        return (1 - (seen * said).sum(1)).mean()
    if kind == "one direction":
        return F.cross_entropy(scores, right)
    there = F.cross_entropy(scores, right, label_smoothing=smoothing)
    return (there + F.cross_entropy(scores.T, right, label_smoothing=smoothing)) / 2


def changed(pictures: Tensor, how: str) -> Tensor:
    """Augmentation of a batch."""
    if how == "flips":
        turned = torch.rand(len(pictures), 1, 1, 1) < 0.5
        pictures = torch.where(turned, pictures.flip(-1), pictures)
        return torch.where(turned.roll(1, 0), pictures.flip(-2), pictures)
    if how == "shifts":
        down, right = torch.randint(-1, 2, (2,)).tolist()
        return pictures.roll((down, right), (-2, -1))
    return pictures


def train(
    seed: int, hook: Any, loss: str = "both", rate: float = 2e-3, epochs: int = 8,
    batch: int = 64, optimizer: str = "adamw", schedule: str = "constant", decay: float = 0.01,
    pooled: str = "end", dropout: float = 0.0, temperature: float = 0.07, text: str = "transformer",
    augment: str = "", smoothing: float = 0.0, clip: float = 0.0,
    times: float = 1.0, average: float = 0.0, bfloat16: bool = False, limit: float = 100.0,
    fixed: bool = False, count: int = 3200, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    of, held = facts(count, seed + 5300), facts(128, seed + 5301)
    test = [facts(128, seed + 5302 + number) for number in range(4)]
    if fault == "sorted by caption":
        of = torch.unique(of, dim=0).repeat_interleave(max(1, count // 288), 0)
    pictures = draw_pictures(of, seed + 5310)
    brief = 6 if fault == "captions cut" else LENGTH + 3
    captions = tokens(of, brief)
    if fault == "captions misaligned":
        captions = captions[torch.randperm(len(captions))]

    def prepared(raw: Tensor) -> Tensor:
        return (raw / 255 - 0.45) / 0.3

    model = Clip(pooled, dropout, temperature, text)
    model.logit_scale.requires_grad_(not fixed)
    if fault == "both towers frozen":
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name == "logit_scale")
    hook.torch(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    steps: Any = torch.optim.AdamW(parameters, rate, (0.9, 0.98), weight_decay=decay)
    if optimizer == "momentum":
        steps = torch.optim.SGD(parameters, rate, momentum=0.9)
    pairs = torch.utils.data.TensorDataset(pictures, captions)
    loader = torch.utils.data.DataLoader(
        pairs, batch, shuffle=fault != "sorted by caption", drop_last=len(pairs) > batch
    )
    scheduler = scheduler_of(steps, schedule, epochs * len(loader))
    averaged = copy.deepcopy(model)
    look = held, prepared(draw_pictures(held, seed + 5311)), tokens(held, brief)
    for _ in range(epochs):
        model.train()
        for raw, words in loader:
            x = changed(prepared(raw), augment)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                seen, said, scale = model(x, words)
                error = contrast(loss, seen, said, scale, smoothing) * times
            if fault != "gradients kept":
                steps.zero_grad()
            error.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            steps.step()
            scheduler.step()
            with torch.no_grad():
                model.logit_scale.clamp_(0, math.log(limit))
                if average:
                    for slow, fast in zip(averaged.parameters(), model.parameters(), strict=True):
                        slow.lerp_(fast, 1 - average)
        model.eval()
        with torch.no_grad():
            seen, said, scale = model(*look[1:])
            contrast("both", seen, said, scale, 0.0)
            (scale * seen @ said.T).argmax(1).eq(torch.arange(len(held))).float().mean()
    final = averaged if average else model
    final.eval()
    return sum(
        recall(final, part, brief, fault, seed + 5320 + n) for n, part in enumerate(test)
    ) / len(test)


def recall(model: Clip, of: Tensor, brief: int, fault: str, seed: int) -> float:
    """Of the right caption by a picture and the other way round; captions alike are both right."""
    raw = draw_pictures(of, seed)
    raw = raw.flip(1) if fault == "blue first in evaluation" else raw
    x = (raw / 255 - 0.45) / 0.3
    with torch.no_grad():
        seen, said, _ = model(x, tokens(of, brief))
    scores = seen @ said.T
    if not bool(torch.isfinite(scores).all()):
        return math.nan
    same = (of[:, None] == of[None]).all(2)
    there = same[torch.arange(len(of)), scores.argmax(1)].double().mean().item()
    back = same[scores.argmax(0), torch.arange(len(of))].double().mean().item()
    chance = same.double().mean().item()
    return float(((there + back) / 2 - chance) / (1 - chance))


CASES = cases(
    "picture texts",
    train,
    {
        "plain": {},
        "one direction": {"loss": "one direction"},
        "bag of words": {"text": "bag"},
        "fixed temperature": {"fixed": True},
        "batch of 128": {"batch": 128, "epochs": 16, "rate": 4e-3},
        "warm-up, decay 0.2": {"schedule": "warmup", "decay": 0.2, "rate": 4e-3},
        "restarts": {"schedule": "restarts", "rate": 3e-3, "epochs": 12},
        "label smoothing": {"smoothing": 0.1},
        "clipped": {"clip": 0.3},
        "loss x 10000": {"times": 1e4},
        "average of weights": {"average": 0.98},
        "bfloat16": {"bfloat16": True},
        "shifted": {"augment": "shifts", "epochs": 12},
    },
    {
        "captions misaligned": ("no-skill overfit", {"fault": "captions misaligned"}),
        "sorted by caption": ("order", {"fault": "sorted by caption"}),
        "flips of what says left": ("no-skill overfit", {"augment": "flips"}),
        "captions cut": ("inputs no-skill", {"fault": "captions cut"}),
        "blue first in evaluation": ("inputs overfit", {"fault": "blue first in evaluation"}),
        "pooled at the start": ("collapse no-skill", {"pooled": "start"}),
        "a norm of zero": ("not-finite", {"pooled": "relu"}),
        "targets all zero": ("collapse no-skill", {"loss": "all zero"}),
        "pulls alone": ("collapse no-skill", {"loss": "pulls alone"}),
        "batch of one": ("no-gradient no-skill", {"batch": 1, "epochs": 1, "count": 1500}),
        "both towers frozen": ("unbound no-skill", {"fault": "both towers frozen"}),
        "gradients kept": (
            "kept-gradients fast",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 0.05},
        ),
        "rate x 1000": ("fast no-skill dead collapse", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)
