"""A scene of coloured balls by a radiance field: colour and density along rays, rendered.

Cameras on a circle see four soft balls on white. A network with positional encoding gives density
and colour at points along a ray, the ray's colour is their weighted sum. The skill is the share of
the variance of pixels that is explained, in views from new places.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, NEAR, FAR = 16, 2.0, 4.0


def cameras(count: int, seed: int, inverted: bool = False) -> tuple[Tensor, Tensor]:
    """Origins and directions of rays (count, SIDE, SIDE, 3); z is up."""
    draw = torch.Generator().manual_seed(seed)
    around = 2 * math.pi * torch.rand(count, generator=draw)
    high = 0.1 + 0.6 * torch.rand(count, generator=draw)
    flat = high.cos()
    away = torch.stack([flat * around.cos(), flat * around.sin(), high.sin()], 1)
    right = torch.stack([-around.sin(), around.cos(), torch.zeros(count)], 1)
    up = torch.linalg.cross(away, right)
    place = torch.linspace(-0.38, 0.38, SIDE)
    down, across = torch.meshgrid(-place, place, indexing="ij")
    local = F.normalize(torch.stack([across, down, -torch.ones(SIDE, SIDE)], -1), dim=-1)
    turned, moved = torch.stack([right, up, away], 2), 3 * away
    if inverted:
        turned = turned.transpose(1, 2)
        moved = -(turned @ moved[:, :, None])[:, :, 0]
    direction = torch.einsum("nij,hwj->nhwi", turned, local)
    return moved[:, None, None].expand_as(direction), direction


def render(density: Tensor, colour: Tensor, apart: Tensor) -> Tensor:
    """Of densities (N, points), colours (N, points, 3) and distances, the colours of N rays."""
    alpha = 1 - torch.exp(-density * apart)
    left = torch.cumprod(1 - alpha + 1e-10, 1)
    weight = alpha * torch.cat([torch.ones_like(left[:, :1]), left[:, :-1]], 1)
    return (weight[..., None] * colour).sum(1) + 1 - weight.sum(1, keepdim=True)


def true_pixels(origin: Tensor, direction: Tensor, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    centre = 1.0 * torch.rand(4, 3, generator=draw) - 0.5
    shade = torch.rand(4, 3, generator=draw)
    depth = torch.linspace(NEAR, FAR, 65)
    at = origin.reshape(-1, 1, 3) + direction.reshape(-1, 1, 3) * depth[:-1, None]
    inside = ((0.33 - torch.cdist(at, centre.expand(len(at), 4, 3))) / 0.04).sigmoid()
    colour = (inside @ shade) / (inside.sum(-1, keepdim=True) + 1e-6)
    return render(25 * inside.sum(-1), colour, depth.diff().expand(len(at), -1))


class Field(nn.Module):
    def __init__(self, waves: int, width: int, density: str, bias: float) -> None:
        super().__init__()
        self.density = density
        self.register_buffer("waves", 2.0 ** torch.arange(waves))
        self.body = nn.Sequential(
            nn.Linear(3 + 6 * waves, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(width, 4)
        nn.init.constant_(self.head.bias[:1], bias)

    def forward(self, at: Tensor) -> tuple[Tensor, Tensor]:
        angle = (at[..., None] * self.waves).flatten(-2)
        out = self.head(self.body(torch.cat([at, angle.sin(), angle.cos()], -1)))
        density = F.relu(out[..., 0]) if self.density == "relu" else F.softplus(out[..., 0])
        return density, out[..., 1:].sigmoid()


def train(
    seed: int, hook: Any, rate: float = 4e-3, steps: int = 2000, rays: int = 48, points: int = 20,
    density: str = "softplus", bias: float = 0.0, width: int = 48, waves: int = 4, views: int = 24,
    near: float = NEAR, far: float = FAR, jitter: bool = True, decay: float = 0.9992,
    loss: str = "squares", noise: float = 0.0, times: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    origin, direction = cameras(views, seed + 11)
    pixels = true_pixels(origin, direction, seed)
    if fault == "poses inverted":
        origin, direction = cameras(views, seed + 11, inverted=True)
    if fault == "pictures transposed":
        pixels = pixels.view(views, SIDE, SIDE, 3).transpose(1, 2).reshape(-1, 3)
    origin, direction = origin.reshape(-1, 3), direction.reshape(-1, 3)
    test_origin, test_direction = (part.reshape(-1, 3) for part in cameras(6, seed + 12))
    test = true_pixels(test_origin, test_direction, seed)
    if fault == "pixels up to 255":
        pixels = pixels * 255
    field = Field(waves, width, density, bias)
    hook.torch(field)

    def seen(start: Tensor, towards: Tensor, jitter: bool) -> Tensor:
        depth = torch.linspace(near, far, points + 1).expand(len(start), -1)
        moved = torch.rand(len(start), points) if jitter else 0.5
        depth = depth[:, :-1] + (far - near) / points * moved
        apart = torch.cat([depth.diff(dim=1), torch.full((len(start), 1), 1e10)], 1)
        apart = apart.clamp(max=(far - near) / points * 2)
        thick, colour = field(start[:, None] + towards[:, None] * depth[..., None])
        if noise and jitter:
            thick = F.relu(thick + noise * torch.randn_like(thick))
        return render(thick, colour, apart)

    optimizer = torch.optim.Adam(field.parameters(), lr=rate, betas=(0.9, 0.99))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, decay)
    for step in range(steps):
        rows = torch.randint(len(pixels), (rays,))
        found = seen(origin[rows], direction[rows], jitter)
        criterion = F.smooth_l1_loss if loss == "Huber" else F.mse_loss
        error = criterion(found, pixels[rows])
        optimizer.zero_grad()
        (error * times).backward()
        optimizer.step()
        scheduler.step()
        if (step + 1) % 400 == 0:
            with torch.no_grad():
                F.mse_loss(seen(test_origin[:256], test_direction[:256], False), test[:256])
    with torch.no_grad():
        return explained(seen(test_origin, test_direction, False), test)


CASES = cases(
    "ray scene",
    train,
    {
        "plain": {},
        "density by relu": {"density": "relu", "bias": 0.5},
        "twelve rays": {"rays": 12, "steps": 3000, "rate": 2e-3, "decay": 0.9993},
        "Huber, without jitter": {"loss": "Huber", "jitter": False},
        "noise on densities": {"noise": 0.3},
        "loss x 10000": {"times": 1e4},
    },
    {
        "pictures transposed": ("inputs no-skill overfit worse", {"fault": "pictures transposed"}),
        "pixels up to 255": ("range saturated no-skill", {"fault": "pixels up to 255"}),
        "density below zero": (
            "dead no-gradient no-skill collapse",
            {"density": "relu", "bias": -3.0},
        ),
        "bounds of another scene": ("inputs no-skill", {"near": 4.0, "far": 8.0}),
        "poses inverted": ("inputs no-skill overfit", {"fault": "poses inverted"}),
    },
)
