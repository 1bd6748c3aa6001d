"""Kinds of vibration from a sensor's spectrum, by a network whose weights are pruned as it learns.

Small weights are masked away step by step, and some regrow. The skill is the accuracy of the pruned
network, above chance.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, with_noise
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

from benchmarks.detection.case import cases

BANDS, KINDS = 48, 8


def spectra(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(count, BANDS), where each kind has its peaks, shifted by the speed of the machine."""
    draw = torch.Generator().manual_seed(seed)
    peaks = 6 + 30 * torch.rand(KINDS, 3, generator=torch.Generator().manual_seed(61))
    kind = torch.randint(KINDS, (count,), generator=draw)
    speed = 0.9 + 0.2 * torch.rand(count, 1, generator=draw)
    at = peaks[kind] * speed
    high = 0.5 + torch.rand(count, 3, generator=draw)
    bands = torch.arange(BANDS)
    x = (high[..., None] * (-((bands - at[..., None]) ** 2) / 3).exp()).sum(1)
    x = x + 0.35 * torch.randn(count, BANDS, generator=draw)
    return (x - 0.25) / 0.5, kind


class Masked(nn.Module):
    """A parametrization: the weight where the mask is one."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones_like(weight))

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.mask


class Gates(nn.Module):
    """Units of a layer, shrunk by a penalty of the gates' absolute values (network slimming)."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.ones(units))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate


def smallest(weight: Tensor, share: float) -> Tensor:
    """A mask that is zero for that share of the smallest weights."""
    count = int(share * weight.numel())
    mask = torch.ones(weight.numel())
    mask[weight.abs().flatten().argsort()[:count]] = 0
    return mask.view_as(weight)


def train(
    seed: int, hook: Any, way: str = "masks", steps: int = 2400, rate: float = 1e-3,
    final: float = 0.8, optimizer: str = "adam", noise: float = 0.0, decay: float = 0.0,
    smoothing: float = 0.0, batch: int = 32, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = spectra(4000, seed + 800)
    y = with_noise(y, noise, seed) if noise else y
    held_x, held_y = spectra(500, 801)
    test_x, test_y = spectra(3000, 802)
    sizes = (BANDS, 96, 96)
    net = nn.Sequential()
    for enter, leave in pairwise(sizes):
        net += nn.Sequential(nn.Linear(enter, leave), nn.BatchNorm1d(leave), nn.ReLU())
        if way == "gates":
            net.append(Gates(leave))
    net.append(nn.Linear(sizes[-1], KINDS))
    layers: list[Any] = [part for part in net if isinstance(part, nn.Linear)][:-1]
    if way == "parametrization":
        for layer in layers:
            parametrize.register_parametrization(layer, "weight", Masked(layer.weight))
    hook.torch(net)
    masks = [torch.ones_like(layer.weight) for layer in layers]
    if way in ("from the start", "regrown"):
        masks = [(torch.rand_like(mask) >= final).float() for mask in masks]
    at_first = {name: value.clone() for name, value in net.state_dict().items()}

    def optimizer_of() -> Any:
        if optimizer == "momentum":
            return torch.optim.SGD(net.parameters(), rate, momentum=0.9, weight_decay=decay)
        return torch.optim.AdamW(net.parameters(), rate, weight_decay=decay)

    updates = optimizer_of()
    for step in range(steps):
        if step % 100 == 50 and step < 0.8 * steps:
            done = min(1.0, step / (0.6 * steps))
            share = final * (1 - (1 - done) ** 3)
            for number, layer in enumerate(layers):
                if way == "masks":
                    masks[number] = smallest(layer.weight.detach(), share)
                elif way == "parametrization":
                    original = layer.parametrizations.weight.original
                    mask = smallest(original.detach(), share)
                    layer.parametrizations.weight[0].mask.copy_(mask)
                elif way == "regrown":
                    # A fifth of what is left goes, and as much comes back where gradients are large
                    left = int(0.2 * (1 - done) * masks[number].sum())
                    if layer.weight.grad is None or not left:
                        continue
                    small = layer.weight.detach().abs() + 1e9 * (1 - masks[number])
                    large = layer.weight.grad.abs() * (1 - masks[number])
                    masks[number].view(-1)[small.flatten().argsort()[:left]] = 0
                    masks[number].view(-1)[large.flatten().argsort()[-left:]] = 1
        if way == "library" and step in (steps // 4, steps // 2):
            pairs = [(layer, "weight") for layer in layers]
            prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.55)
            updates = optimizer_of()
        if way == "lottery" and step == steps // 3:
            masks = [smallest(layer.weight.detach(), final) for layer in layers]
            net.load_state_dict(at_first)
            updates = optimizer_of()
        if way == "once, late" and step == steps // 2:
            masks = [smallest(layer.weight.detach(), final) for layer in layers]
        if way in ("masks", "from the start", "regrown", "lottery", "once, late"):
            with torch.no_grad():
                for layer, mask in zip(layers, masks, strict=True):
                    layer.weight.mul_(mask)
        rows = torch.randint(len(x), (batch,))
        loss = F.cross_entropy(net(x[rows]), y[rows], label_smoothing=smoothing)
        if way == "gates":
            sizes_of_gates = [part.gate.abs().sum() for part in net if isinstance(part, Gates)]
            loss = loss + 2e-3 * torch.stack(sizes_of_gates).sum()
        updates.zero_grad()
        loss.backward()
        updates.step()
        if step % 200 == 199:
            net.eval()
            with torch.no_grad():
                F.cross_entropy(net(held_x), held_y)
            net.train()
        if fault == "largest pruned" and step >= steps // 2:
            with torch.no_grad():
                for layer in layers:
                    layer.weight.mul_(1 - smallest(layer.weight, 0.1))
    net.eval()
    with torch.no_grad():
        return class_skill(net(test_x), test_y)


CASES = cases(
    "pruned sensors",
    train,
    {
        "plain": {},
        "nothing pruned": {"way": "none"},
        "parametrization": {"way": "parametrization"},
        "the library's own": {"way": "library"},
        "sparse from the start": {"way": "from the start", "rate": 2e-3},
        "pruned and regrown": {"way": "regrown", "rate": 2e-3},
        "lottery ticket": {"way": "lottery"},
        "once, late": {"way": "once, late", "optimizer": "momentum", "rate": 2e-2, "decay": 5e-4},
        "gates with a penalty": {"way": "gates"},
        "labels with noise, smoothed": {"noise": 0.1, "smoothing": 0.1},
    },
    {
        "largest pruned": ("no-skill collapse dead worse", {"fault": "largest pruned"}),
    },
)  # fmt: skip
