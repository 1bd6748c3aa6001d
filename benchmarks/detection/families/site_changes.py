"""What has changed between two pictures of a place: one encoder for both, and a mask of changes.

Aerial pictures of fields and roofs; season and light differ between both years, and some roofs are
new in the second. Few pixels have changed. The skill is the F1 score of changed pixels on other
places, above that of calling everything changed.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

SIDE = 20


def places(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures (N, 3, SIDE, SIDE) before and after, and the change (N, 1, SIDE, SIDE)."""
    draw = torch.Generator().manual_seed(seed)
    place = torch.arange(SIDE)
    fields = F.interpolate(torch.rand(count, 3, 5, 5, generator=draw), SIDE) * 0.4 + 0.2

    def roofs(most: int) -> Tensor:
        corner = torch.randint(0, SIDE - 3, (count, most, 2, 1), generator=draw)
        size = torch.randint(3, 6, (count, most, 2, 1), generator=draw)
        inside = ((place >= corner) & (place < corner + size)).float()
        there = (torch.rand(count, most, 1, 1, generator=draw) < 0.7).float()
        return (there * inside[:, :, 0, :, None] * inside[:, :, 1, None]).amax(1, keepdim=True)

    old, new = roofs(3), roofs(2)
    colour, both = torch.tensor([0.75, 0.45, 0.4]).view(3, 1, 1), []
    for built in (old, old.maximum(new)):
        season = 0.1 * torch.randn(count, 3, 1, 1, generator=draw)
        picture = torch.where(built > 0, colour, fields + season)
        picture = picture * (0.85 + 0.3 * torch.rand(count, 1, 1, 1, generator=draw))
        both.append(picture + 0.05 * torch.randn(picture.shape, generator=draw))
    return both[0], both[1], new * (1 - old)


class Pairs(Dataset):
    def __init__(self, parts: tuple[Tensor, ...], fault: str = "") -> None:
        self.parts, self.fault = parts, fault

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        rows = [part[number] for part in self.parts]
        if self.fault == "turned one by one":
            rows = [part.rot90(int(torch.randint(4, ())), (1, 2)) for part in rows]
        if self.fault == "the first picture twice":
            rows[1] = rows[0]
        return dict(zip(("before", "after", "mask"), rows, strict=True))


class Siamese(nn.Module):
    def __init__(self, joined: str = "distance", sigmoid: bool = False) -> None:
        super().__init__()
        self.joined, self.sigmoid = joined, sigmoid
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Conv2d(32 if joined == "side by side" else 16, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 1, 3, padding=1),
        )  # fmt: skip

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        one, two = self.encoder(before), self.encoder(after)
        joined = torch.cat([one, two], 1) if self.joined == "side by side" else (one - two).abs()
        scores = cast(Tensor, self.decoder(joined))
        return scores.sigmoid() if self.sigmoid else scores


def loss_of(kind: str, scores: Tensor, mask: Tensor) -> Tensor:
    if kind.startswith("focal"):
        mask = mask.squeeze(1) if kind == "focal, of other shapes" else mask
        share = scores.sigmoid()
        right = share * mask + (1 - share) * (1 - mask)
        return (-((1 - right) ** 2) * right.clamp(min=1e-6).log()).mean()
    weight = 0.02 if kind == "weight of the wrong side" else 2.0
    return F.binary_cross_entropy_with_logits(scores, mask, pos_weight=torch.tensor(weight))


def train(
    seed: int, hook: Any, loss: str = "weighted", joined: str = "distance", rate: float = 6e-3,
    epochs: int = 8, batch: int = 8, accumulate: int = 1,
    sigmoid: bool = False, times: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    loader: Any = DataLoader(Pairs(places(320, seed + 9300), fault), batch, shuffle=True)
    held = places(64, seed + 9301)
    before, after, mask = places(250, seed + 9302)
    model = Siamese(joined, sigmoid)
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-2)
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        model.train()
        for number, rows in enumerate(loader):
            error = loss_of(loss, model(rows["before"], rows["after"]), rows["mask"])
            (error * times / accumulate).backward()
            if (number + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        falls.step()
        model.eval()
        with torch.no_grad():
            loss_of(loss, model(*held[:2]), held[2])
    with torch.no_grad():
        found = (model(before, after).sigmoid() > 0.5).float()
    score, every = (2 * (of * mask).mean() / (of + mask).mean() for of in (found, 1 + 0 * mask))
    return float((score - every) / (1 - every))


CASES = cases(
    "site changes",
    train,
    {
        "plain": {},
        "encodings side by side": {"joined": "side by side"},
        "focal loss": {"loss": "focal"},
        "accumulated": {"batch": 4, "accumulate": 2},
        "loss x 10000": {"times": 1e4},
    },
    {
        "turned one by one": ("no-skill overfit", {"fault": "turned one by one"}),
        "the first picture twice": ("inputs no-skill", {"fault": "the first picture twice"}),
        "sigmoid twice": ("probabilities", {"sigmoid": True}),
        "focal, of other shapes": ("broadcast no-skill", {"loss": "focal, of other shapes"}),
        "weight of the wrong side": ("imbalance", {"loss": "weight of the wrong side"}),
    },
)
