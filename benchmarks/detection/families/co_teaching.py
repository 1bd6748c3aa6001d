"""Animals from what visitors saw, with many wrong labels: two networks teach each other.

In co-teaching, each chooses the samples of a batch whose loss is small, and the other learns from
them. The skill is the accuracy of the first network on clean labels, above that of the most
frequent animal.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, dense
from torch import Tensor, nn

from benchmarks.detection.case import cases

TRAITS, ANIMALS = 24, 6


def seen(count: int, seed: int, spread: float = 1.5) -> tuple[Tensor, Tensor]:
    """Traits (N, TRAITS) in their own units, of two breeds an animal, and the animal."""
    centres = torch.randn(2 * ANIMALS, TRAITS, generator=torch.Generator().manual_seed(77))
    draw = torch.Generator().manual_seed(seed)
    breed = torch.randint(2 * ANIMALS, (count,), generator=draw)
    traits = centres[breed] + spread * torch.randn(count, TRAITS, generator=draw)
    return traits, breed % ANIMALS


def wrong(kind: Tensor, share: float, noise: str, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    other = torch.randint(ANIMALS, kind.shape, generator=draw)
    if noise == "pairs":
        other = (kind + 1) % ANIMALS
    return torch.where(torch.rand(kind.shape, generator=draw) < share, other, kind)


def pair_update(
    nets: Any, updates: Any, x: Tensor, y: Tensor, keep: float, how: str, smoothing: float
) -> None:
    """One update of both networks, each from the samples that the other chose."""
    scores = [net(x) for net in nets]
    losses = [F.cross_entropy(s, y, reduction="none", label_smoothing=smoothing) for s in scores]
    count = max(1, int(keep * len(y)))
    best = [loss.detach().argsort()[:count] for loss in losses]
    if how == "largest chosen":
        best = [loss.detach().argsort()[-count:] for loss in losses]
    if how == "where they disagree":
        apart = (scores[0].argmax(1) != scores[1].argmax(1)).nonzero()[:, 0]
        if len(apart) > 3:
            chosen = max(1, int(keep * len(apart)))
            best = [apart[loss.detach()[apart].argsort()[:chosen]] for loss in losses]
    if how == "soft weights":
        weights = [(-loss.detach() / (2 - keep)).exp() for loss in losses]
        total = sum(
            (loss * w).sum() / w.sum() for loss, w in zip(losses, weights[::-1], strict=True)
        )
    elif how == "both together":
        first, second = (s.log_softmax(1) for s in scores)
        agree = F.kl_div(first, second, reduction="none", log_target=True).sum(1)
        agree = agree + F.kl_div(second, first, reduction="none", log_target=True).sum(1)
        joint = 0.7 * (losses[0] + losses[1]) + 0.3 * agree
        total = joint[joint.detach().argsort()[:count]].mean()
    else:
        total = losses[0][best[1]].mean() + losses[1][best[0]].mean()
    for update in updates:
        update.zero_grad()
    total.backward()
    for update in updates:
        update.step()


def train(
    seed: int, hook: Any, how: str = "", share: float = 0.4, noise: str = "any",
    keep: float | None = None, epochs: int = 20, batch: int = 64, rate: float = 1e-3,
    decay: float = 0.0, smoothing: float = 0.0, one_optimizer: bool = False,
    dropout: float = 0.0, count: int = 4000, normal: bool = False, watch: str = "held out",
    last_of_one: bool = False,
) -> float:  # fmt: skip
    begin(seed)
    x, kind = seen(count + last_of_one, seed + 400)
    y = wrong(kind, share, noise, seed)
    held_x, held_y = seen(400, seed + 401)
    test_x, test_y = seen(2000, seed + 402)
    sizes = (TRAITS, 96, 96, ANIMALS)
    nets: Any = [dense(sizes), dense(sizes)]
    if dropout:
        for net in nets:
            net.insert(2, nn.Dropout(dropout))
    if normal:
        for net in nets:
            net.insert(1, nn.LayerNorm(96))
    hook.torch(nn.ModuleList(nets))
    if one_optimizer:
        every = itertools.chain(*(net.parameters() for net in nets))
        updates: list[Any] = [torch.optim.SGD(every, 20 * rate, momentum=0.9, nesterov=True)]
    else:
        updates = [torch.optim.AdamW(net.parameters(), rate, weight_decay=decay) for net in nets]
    plans = [torch.optim.lr_scheduler.StepLR(u, max(1, epochs // 3), 0.4) for u in updates]
    for epoch in range(epochs):
        for net in nets:
            net.train()
        kept = 1 - (keep if keep is not None else share) * min(1.0, epoch / 5)
        for rows in torch.randperm(len(x)).split(batch):
            pair_update(nets, updates, x[rows], y[rows], kept, how, smoothing)
        for plan in plans:
            plan.step()
        if watch == "in training mode":
            with torch.no_grad():
                for net in nets:
                    F.cross_entropy(net(x[:400]), kind[:400])
            continue
        with torch.no_grad():
            for net in nets:
                net.eval()
                F.cross_entropy(net(held_x), held_y)
                if watch == "noisy too":
                    F.cross_entropy(net(held_x), wrong(held_y, share, noise, seed))
    nets[0].eval()
    with torch.no_grad():
        return class_skill(nets[0](test_x), test_y)


CASES = cases(
    "co-teaching",
    train,
    {
        "plain": {},
        "batches of sixteen": {"batch": 16, "epochs": 8, "rate": 5e-4},
        "neighbours confused": {"noise": "pairs", "share": 0.25},
        "where they disagree, dropout": {"how": "where they disagree", "dropout": 0.2},
        "soft weights": {"how": "soft weights"},
        "trained to agree": {"how": "both together"},
        "one optimizer, a last batch of one": {"one_optimizer": True, "last_of_one": True},
        "smoothing and layer norm": {"smoothing": 0.1, "normal": True},
        "clean and noisy evaluation": {"watch": "noisy too", "decay": 0.1},
        "watched on part of the training": {"watch": "in training mode", "dropout": 0.1},
    },
    {
        "largest losses chosen": ("no-skill worse overfit", {"how": "largest chosen"}),
        "all kept, many epochs": (
            "overfit", {"keep": 0.0, "share": 0.7, "epochs": 100, "count": 1000},
        ),
    },
)  # fmt: skip
