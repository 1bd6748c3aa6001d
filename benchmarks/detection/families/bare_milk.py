"""Whether a sample of milk was watered, by its infrared spectrum; saved as values, without a hook.

Made-up spectra have bands of fat, protein, lactose and water, a slope of the instrument, and noise,
in milliabsorbance. A quarter of the samples is watered. The skill is the mean recall of both kinds
above chance, of other samples.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, save_values, scheduler_of
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

CHANNELS = 48


def bands() -> Tensor:
    """(4, CHANNELS): fat, protein, lactose, water."""
    at = torch.arange(CHANNELS).float()
    places = [[(6, 2.0), (14, 2.5)], [(22, 3.0), (27, 2.0)], [(36, 3.0)], [(20, 9.0), (46, 5.0)]]
    return torch.stack([sum(torch.exp(-(((at - p) / w) ** 2)) for p, w in b) for b in places])


def samples(count: int, seed: int, noise: float = 4.0) -> tuple[Tensor, Tensor]:
    """Spectra (N, CHANNELS) and whether each was watered (N,)."""
    draw = torch.Generator().manual_seed(seed)
    normal = torch.randn(count, 4, generator=draw)
    watered = (torch.rand(count, generator=draw) < 0.25).float()
    part = watered * (0.08 + 0.22 * torch.rand(count, generator=draw))
    fat, protein = 4.0 + 0.5 * normal[:, 0], 3.4 + 0.18 * normal[:, 1] + 0.08 * normal[:, 0]
    lactose = 4.8 + 0.12 * normal[:, 2]
    milk = torch.stack([fat, protein, lactose], 1) * (1 - part[:, None])
    parts = torch.cat([milk, (100 - milk.sum(1, keepdim=True)) / 10], 1)
    slope = normal[:, 3:] * torch.linspace(-1, 1, CHANNELS) * 15
    spectra = 60 * parts @ bands() + slope + 200
    return spectra + noise * torch.randn(count, CHANNELS, generator=draw), watered


class Inspector:
    """A small perceptron, how it is trained, and the file its values are saved to."""

    def __init__(self, recorded: Hook, norm: bool, dropout: float, how: dict[str, Any]) -> None:
        self.fault: str = how["fault"]
        self.smoothing, self.weight = how["smoothing"], how["weight"]
        self.model = nn.Sequential(
            nn.Linear(CHANNELS, 32), nn.BatchNorm1d(32) if norm else nn.Identity(), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1),
        )  # fmt: skip
        if self.fault == "softmax of one unit":
            self.model.append(nn.Softmax(dim=1))
        self.opt = optimizer_of(how["optimizer"], self.model.parameters(), how["rate"])
        self.schedule = scheduler_of(self.opt, how["schedule"], how["steps"])
        self.recorded = recorded

    def loss(self, x: Tensor, watered: Tensor) -> Tensor:
        """Cross-entropy by hand, as the note of the laboratory has it."""
        logit = self.model(x)
        if self.fault != "column against row":
            logit = logit.squeeze(1)
        wanted = watered * (1 - self.smoothing) + 0.5 * self.smoothing
        weights = 1 + (self.weight - 1) * watered
        return (weights * (F.softplus(logit) - wanted * logit)).mean()

    def step(self, parts: list[tuple[Tensor, Tensor]], clip: float) -> None:
        self.model.train()
        if self.fault != "gradients kept":
            self.opt.zero_grad()
        for x, watered in parts:
            loss = self.loss(x, watered)
            (loss / len(parts)).backward()
        if clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.opt.step()
        self.schedule.step()
        save_values(self.recorded, self.model, loss, name="bce", biases="weights")

    @torch.no_grad()
    def evaluate(self, x: Tensor, watered: Tensor) -> None:
        self.model.eval()
        with self.recorded.step(modes.EVAL):
            self.recorded.save("bce", self.loss(x, watered).item(), "losses", raw=True)

    @torch.no_grad()
    def skill(self, x: Tensor, watered: Tensor) -> float:
        self.model.eval()
        chance = self.model(x).squeeze(1).sigmoid()
        found, true = chance > 0.5, watered > 0.5
        recall = found[true].double().mean() + (~found[~true]).double().mean()
        return recall.item() - 1 if bool(chance.isfinite().all()) else math.nan


def train(
    seed: int, hook: Any, steps: int = 3000, rate: float = 2e-3, batch: int = 32,
    optimizer: str = "adam", schedule: str = "constant", accumulate: int = 1, clip: float = 0.0,
    norm: bool = False, dropout: float = 0.0, smoothing: float = 0.0, weight: float = 1.0,
    even: bool = False, count: int = 4000, noise: float = 4.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    how = {
        "fault": fault, "smoothing": smoothing, "weight": weight, "optimizer": optimizer,
        "rate": rate, "schedule": schedule, "steps": steps,
    }  # fmt: skip
    x, watered = samples(count, 9 * seed + 61, noise)
    held_x, held_watered = samples(600, 9 * seed + 62)
    test_x, test_watered = samples(3000, 9 * seed + 63)
    mean, spread = x.mean(0), x.std(0)
    if fault == "spectra as they are":
        mean, spread = torch.zeros(CHANNELS), torch.ones(CHANNELS)
    x = (x - mean) / spread
    if fault == "new spectra scaled by their own maximum":
        held_x, test_x = held_x / held_x.max(), test_x / test_x.max()
    else:
        held_x, test_x = (held_x - mean) / spread, (test_x - mean) / spread
    if fault == "list of results in another order":
        watered = watered[torch.randperm(count)]
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    inspector = Inspector(recorded, norm, dropout, how)
    drawn = 1 + 2 * watered if even else torch.ones(count)
    for step in range(steps):
        rows = torch.multinomial(drawn, batch * accumulate, replacement=True).split(batch)
        inspector.step([(x[r], watered[r]) for r in rows], clip)
        if step % 250 == 249:
            inspector.evaluate(held_x, held_watered)
    recorded.close()
    return inspector.skill(test_x, test_watered)


CASES = cases(
    "bare milk",
    train,
    {
        "plain": {},
        "watered ones weigh threefold": {"weight": 3.0},
        "as many of both drawn": {"even": True, "batch": 64, "steps": 2000},
        "momentum after a warm-up": {"optimizer": "momentum", "rate": 5e-2, "schedule": "warmup"},
        "four at a time, clipped": {"batch": 4, "steps": 4000, "rate": 1e-3, "clip": 1.0},
        "batch norm, dropout, smoothing": {
            "norm": True, "dropout": 0.1, "smoothing": 0.1, "schedule": "cosine",
        },
        "accumulated, restarts": {"batch": 8, "accumulate": 4, "schedule": "restarts"},
    },
    {
        "softmax of one unit": (
            "probabilities no-gradient no-skill collapse", {"fault": "softmax of one unit"},
        ),
        "column against row": ("broadcast no-skill", {"fault": "column against row"}),
        "gradients kept": (
            "kept-gradients fast worse", {"fault": "gradients kept", "optimizer": "momentum"},
        ),
        "new spectra scaled by their own maximum": (
            "inputs worse", {"fault": "new spectra scaled by their own maximum"},
        ),
        "list of results in another order": (
            "no-skill overfit", {"fault": "list of results in another order"},
        ),
        "spectra as they are": (
            "inputs dead fast no-skill",
            {"fault": "spectra as they are", "optimizer": "momentum", "rate": 5e-2},
        ),
        "descent at the rate of Adam": (
            "slow no-skill imbalance", {"optimizer": "sgd", "rate": 1e-4, "steps": 1500},
        ),
    },
)  # fmt: skip
