"""The next item of a shop's session, by self-attention (SASRec) or a recurrent network (GRU4Rec).

Sessions are padded on the left with item 0, and each position predicts the item that follows. The
skill is NDCG@10 of the last item among all, above that of the most popular ten.
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

SHELVES, EACH, LENGTH, WIDTH = 8, 15, 10, 32
ITEMS = SHELVES * EACH


def sessions(count: int, seed: int, shortest: int = 4) -> Tensor:
    """(count, LENGTH + 1) items from 1 on: most often what goes with the last one."""
    draw = torch.Generator().manual_seed(seed)
    goes_with = torch.cat(
        [torch.randperm(EACH, generator=torch.Generator().manual_seed(s)) for s in range(SHELVES)]
    )
    popular = 1 / torch.arange(1, ITEMS + 1).float()
    at = torch.multinomial(popular, count, replacement=True, generator=draw)
    steps = [at]
    for _ in range(LENGTH):
        chance = torch.rand(count, generator=draw)
        shelf = at // EACH * EACH
        near = shelf + torch.randint(EACH, (count,), generator=draw)
        far = torch.multinomial(popular, count, replacement=True, generator=draw)
        at = torch.where(chance < 0.8, shelf + goes_with[at], torch.where(chance < 0.9, near, far))
        steps.append(at)
    items = torch.stack(steps, 1) + 1
    length = torch.randint(shortest, LENGTH + 2, (count, 1), generator=draw)
    return items * (torch.arange(LENGTH + 1) >= LENGTH + 1 - length)


class SelfAttentive(nn.Module):
    def __init__(self, dropout: float, start: float) -> None:
        super().__init__()
        self.items = nn.Embedding(ITEMS + 1, WIDTH, padding_idx=0)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=0.0, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(dropout), nn.Linear(WIDTH, WIDTH)
        )
        self.dropout = nn.Dropout(dropout)
        for embedding in (self.items, self.places):
            nn.init.normal_(embedding.weight, std=start)

    def forward(self, x: Tensor) -> Tensor:
        h = self.dropout(self.items(x) * math.sqrt(WIDTH) + self.places.weight)
        h = h * (x != 0)[..., None]
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        query = self.norms[0](h)
        h = query + self.attention(query, h, h, need_weights=False, attn_mask=later)[0]
        h = h + self.feed(self.norms[1](h))
        return self.norms[2](h)


class Recurrent(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.items = nn.Embedding(ITEMS + 1, WIDTH, padding_idx=0)
        self.recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.items.weight, std=0.3)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.recurrent(self.dropout(self.items(x)))[0]
        return h


def objective(kind: str, h: Tensor, items: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
    """The loss of hidden states (N, L, D) where ``wanted`` (N, L) is no padding."""
    if kind in ("cross-entropy", "softmax", "padding alone"):
        scores = h @ items.T
        if kind == "softmax":
            scores = scores.softmax(-1)
        if kind == "padding alone":
            wanted = wanted.masked_fill(wanted != 0, -100)
        return F.cross_entropy(
            scores.flatten(0, 1), wanted.flatten(), label_smoothing=smoothing,
            ignore_index=-100 if kind == "padding alone" else 0,
        )  # fmt: skip
    real = wanted != 0
    other = torch.randint(1, ITEMS + 1, (*wanted.shape, 32))
    right = (h * items[wanted]).sum(-1)[real]
    wrong = torch.einsum("nld,nlkd->nlk", h, items[other])[real]
    if kind == "logarithm":
        positive, negative = right.sigmoid().log(), (1 - wrong.sigmoid()).log()
        return -positive.mean() - negative.sum(-1).mean()
    if kind == "sigmoid twice":
        right, wrong = right.sigmoid(), wrong.sigmoid()
    one, none = torch.ones_like(right), torch.zeros_like(wrong)
    binary = F.binary_cross_entropy_with_logits
    return binary(right, one) + binary(wrong, none, reduction="sum") / len(right)


def ndcg(scores: Tensor, wanted: Tensor) -> float:
    """At 10, of scores (N, ITEMS); NaN if one of them is."""
    if not bool(torch.isfinite(scores).all()):
        return math.nan
    rank = (scores > scores.gather(1, wanted[:, None] - 1)).sum(1)
    rank = rank + (scores == scores.gather(1, wanted[:, None] - 1)).sum(1) // 2
    return float(torch.where(rank < 10, 1 / torch.log2(rank + 2.0), 0.0).mean())


def rows_of(train: Tensor, fault: str, noise: float, first_short: bool) -> Tensor:
    if noise:
        clicked = (torch.rand(train.shape) < noise) & (train != 0)
        train = torch.where(clicked, torch.randint(1, ITEMS + 1, train.shape), train)
    if fault == "items in no order":
        key = torch.rand(train.shape).masked_fill(train == 0, -1.0)
        train = train.gather(1, key.argsort(1))
    if fault == "sorted by item":
        train = train.sort(1).values
    if first_short:
        train = train[(train != 0).sum(1).argsort(dim=0, stable=True)]
    return train


def train(
    seed: int, hook: Any, model: str = "attention", loss: str = "cross-entropy",
    rate: float = 1e-3, epochs: int = 8, batch: int = 16, optimizer: str = "adam",
    schedule: str = "constant", dropout: float = 0.1, decay: float = 0.0, noise: float = 0.0,
    smoothing: float = 0.0, clip: float = 0.0, times: float = 1.0, count: int = 4000,
    average: float = 0.0, start: float = 0.1, bfloat16: bool = False, first_short: bool = False,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    clicks = rows_of(sessions(count, seed + 5100), fault, noise, first_short)
    held, test = sessions(400, seed + 5101), sessions(1200, seed + 5102)
    if fault == "ids encoded again":
        recoded = torch.cat([torch.zeros(1, dtype=torch.long), torch.randperm(ITEMS) + 1])
        held, test = recoded[held], recoded[test]
    back = 0 if fault == "target is the input" else 1

    def pair(rows: Tensor) -> tuple[Tensor, Tensor]:
        return (rows[:, :-1], rows[:, 1:]) if back else (rows[:, 1:], rows[:, 1:])

    net: Any = Recurrent(dropout) if model == "recurrent" else SelfAttentive(dropout, start)
    if fault == "only places train":
        net.requires_grad_(False)
        net.places.requires_grad_(True)
    hook.torch(net)
    trained = copy.deepcopy(net) if fault == "optimizer of a copy" else net
    chosen = [p for p in trained.parameters() if p.requires_grad]
    chooser: Any = {
        "adam": lambda: torch.optim.Adam(chosen, rate, betas=(0.9, 0.98), weight_decay=decay),
        "adamw": lambda: torch.optim.AdamW(chosen, rate, weight_decay=decay),
        "adagrad": lambda: torch.optim.Adagrad(chosen, rate),
        "momentum": lambda: torch.optim.SGD(chosen, rate, momentum=0.9),
    }[optimizer]
    steps = chooser()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*pair(clicks)), batch, shuffle=not first_short
    )
    scheduler = scheduler_of(steps, schedule, epochs * len(loader))
    averaged = copy.deepcopy(net)
    for _ in range(epochs):
        net.train()
        for x, wanted in loader:
            if fault == "targets of another session":
                wanted = wanted.roll(1, 0)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                h = net(x)
                h = h.detach() if fault == "states detached" else h
                error = objective(loss, h, net.items.weight, wanted, smoothing) * times
            if fault != "gradients kept":
                steps.zero_grad()
            error.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            steps.step()
            scheduler.step()
            if average:
                for slow, fast in zip(averaged.parameters(), net.parameters(), strict=True):
                    slow.data.lerp_(fast.data, 1 - average)
        if evaluated:
            net.eval()
            with torch.no_grad():
                x, wanted = pair(held)
                objective(loss, net(x), net.items.weight, wanted, smoothing)
                ndcg(net(x)[:, -1] @ net.items.weight[1:].T, wanted[:, -1])
    final = averaged if average else net
    final.eval()
    x, wanted = test[:, :-1], test[:, -1]
    if fault == "padded on the other side":
        x = x.gather(1, (x == 0).long().argsort(dim=1, stable=True))
    with torch.no_grad():
        found = ndcg(final(x)[:, -1] @ final.items.weight[1:].T, wanted)
    seen = torch.bincount(test[test != 0], minlength=ITEMS + 1)[1:]
    popular = ndcg(seen.float().expand(len(test), -1), wanted)
    return (found - popular) / (1 - popular)


CASES = cases(
    "session items",
    train,
    {
        "plain": {},
        "recurrent": {"model": "recurrent", "rate": 2e-3},
        "sampled negatives": {"loss": "binary", "rate": 2e-3},
        "batch of four": {"batch": 4, "epochs": 3, "rate": 6e-4},
        "batch of 512": {"batch": 512, "epochs": 60, "rate": 4e-3},
        "Adagrad": {"optimizer": "adagrad", "rate": 3e-2},
        "SGD with momentum": {"optimizer": "momentum", "rate": 0.1},
        "dropout of 0.3": {"dropout": 0.3, "rate": 2e-3},
        "random clicks": {"noise": 0.05},
        "warm-up": {"schedule": "warmup", "rate": 2e-3},
        "restarts": {"schedule": "restarts", "rate": 2e-3},
        "label smoothing": {"smoothing": 0.2},
        "loss x 10000": {"times": 1e4},
        "clipped": {"clip": 0.1},
        "AdamW": {"optimizer": "adamw", "decay": 0.1},
        "average of weights": {"average": 0.995},
        "bfloat16": {"bfloat16": True},
        "short sessions first": {"first_short": True},
        "no evaluation": {"evaluated": False},
    },
    {
        "target is the input": ("leak", {"fault": "target is the input"}),
        "targets of another session": (
            "no-skill overfit",
            {"fault": "targets of another session"},
        ),
        "items in no order": ("no-skill overfit inputs", {"fault": "items in no order"}),
        "sorted by item": ("overfit inputs", {"fault": "sorted by item"}),
        "ids encoded again": ("inputs overfit", {"fault": "ids encoded again"}),
        "padded on the other side": ("inputs overfit", {"fault": "padded on the other side"}),
        "loss of padding alone": ("ignored no-skill collapse", {"loss": "padding alone"}),
        "softmax before the loss": ("probabilities", {"loss": "softmax", "rate": 3e-4}),
        "sigmoid twice": ("probabilities", {"loss": "sigmoid twice"}),
        "logarithm of a sigmoid": ("not-finite", {"loss": "logarithm", "start": 1.0}),
        "gradients kept": (
            "kept-gradients fast",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 0.1},
        ),
        "only places train": ("unbound no-skill", {"fault": "only places train"}),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "states detached": ("no-gradient unbound", {"fault": "states detached"}),
        "few sessions": ("overfit", {"count": 40, "epochs": 400}),
        "decay of one": ("collapse no-skill", {"decay": 1.0}),
        "rate x 1000": ("fast no-skill dead saturated", {"rate": 1.0}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-6}),
    },
)
