"""A world model: what a camera will see of a ball that is pushed about, by a recurrent network.

Pictures of a ball in a box, and the push at each moment. An encoder makes a latent of each picture,
a GRU says the next latent from the latents and pushes so far, and a decoder makes pictures of both.
The skill is the share of the variance of next pictures that the decoded predictions explain.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, MOMENTS, LATENT = 7, 8, 12


def episodes(count: int, seed: int) -> dict[str, Tensor]:
    """Pictures (N, MOMENTS, SIDE * SIDE) from 0 to 1, and pushes (N, MOMENTS, 2)."""
    draw = torch.Generator().manual_seed(seed)
    place = 2 * torch.rand(count, 2, generator=draw) - 1
    speed = 0.3 * torch.randn(count, 2, generator=draw)
    grid = torch.linspace(-1, 1, SIDE)
    pictures, pushes = [], []
    for _ in range(MOMENTS):
        near = [(-((grid - place[:, at : at + 1]) ** 2) / 0.16).exp() for at in (0, 1)]
        pictures.append((near[1][:, :, None] * near[0][:, None]).flatten(1))
        push = 0.35 * torch.randn(count, 2, generator=draw)
        pushes.append(push)
        speed = 0.8 * speed + push
        place = place + speed
        speed = torch.where(place.abs() > 1, -speed, speed)
        place = torch.where(place.abs() > 1, place.sign() * 2 - place, place).clamp(-1, 1)
    return {"pictures": torch.stack(pictures, 1), "pushes": torch.stack(pushes, 1)}


class World(nn.Module):
    def __init__(self, first: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SIDE * SIDE, 48), nn.ReLU(), nn.Linear(48, LATENT))
        self.dynamics = nn.GRU(LATENT + 2, 48, batch_first=first)
        self.following = nn.Linear(48, LATENT)
        self.decoder = nn.Sequential(nn.Linear(LATENT, 48), nn.ReLU(), nn.Linear(48, SIDE * SIDE))

    def forward(self, pictures: Tensor, pushes: Tensor) -> tuple[Tensor, Tensor]:
        """The latents of the pictures, and what is expected to follow each."""
        latents = self.encoder(pictures)
        states = self.dynamics(torch.cat([latents, pushes], 2))[0]
        return latents, self.following(states)


class Trainer:
    """Losses of the reconstruction, of the next latent and of the next picture."""

    def __init__(self, world: World, rate: float, options: dict[str, Any], fault: str) -> None:
        self.world, self.options, self.fault = world, options, fault
        parameters = list(world.parameters())
        if fault == "dynamics in no optimizer":
            parameters = [*world.encoder.parameters(), *world.decoder.parameters()]
        kinds: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        self.optimizer = kinds[options.get("optimizer", "adam")](parameters, rate)

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        pictures, pushes = batch["pictures"], batch["pushes"]
        world, options = self.world, self.options
        latents, expected = world(pictures, pushes)
        now = latents[:, 1:]
        if self.fault == "same moment":
            wanted, ahead = latents[:, :-1], pictures[:, :-1]
        else:
            wanted, ahead = now, pictures[:, 1:]
        if self.fault == "latents alone":
            return ((expected[:, :-1] - wanted) ** 2).mean()
        if self.fault != "target follows too":
            wanted = wanted.detach()
        seen = world.decoder(expected[:, :-1])
        decoded = world.decoder(latents)
        if self.fault == "prediction detached":
            seen = world.decoder(expected[:, :-1].detach())
            wanted = expected[:, :-1].detach()
        per_pixel = (decoded - pictures) ** 2, (seen - ahead) ** 2
        if options.get("summed"):
            again, next_one = (of.sum((1, 2)).mean() for of in per_pixel)
        else:
            again, next_one = (20 * of.mean() for of in per_pixel)
        if options.get("likelihood"):  # of a normal distribution with a small spread
            again, next_one = (of.mean() / 0.02 - 1.96 for of in per_pixel)
        latent = ((expected[:, :-1] - wanted) ** 2).mean()
        return again + next_one + options.get("latent", 0.1) * latent

    def update(self, parts: list[dict[str, Tensor]]) -> None:
        if self.fault != "gradients kept":
            self.optimizer.zero_grad()
        for part in parts:
            (self.loss(part) / len(parts)).backward()
        if self.options.get("clip"):
            nn.utils.clip_grad_norm_(self.world.parameters(), self.options["clip"])
        self.optimizer.step()


def train(
    seed: int, hook: Any, rate: float = 4e-3, steps: int = 2000, batch: int = 16,
    count: int = 1500, accumulate: int = 1, fault: str = "", **options: Any,
) -> float:  # fmt: skip
    begin(seed)
    known, held, test = (episodes(n, seed + 35100 + at) for at, n in enumerate((count, 200, 500)))
    if fault == "pushes a moment late":
        known["pushes"], held["pushes"] = (of["pushes"].roll(1, 1) for of in (known, held))
    if fault == "bytes in evaluation":
        held["pictures"] = 255 * held["pictures"]
    world = World(first=fault != "batch is not first")
    hook.torch(world)
    trainer = Trainer(world, rate, options, fault)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        parts = []
        for _ in range(accumulate):
            rows = torch.randint(count, (batch,), generator=draw)
            parts.append({name: column[rows] for name, column in known.items()})
        trainer.update(parts)
        if step % 250 == 249 and not options.get("never evaluated"):
            world.eval()
            with torch.no_grad():
                trainer.loss(held)
            world.train()
    world.eval()
    pictures = test["pictures"] * (255 if fault == "bytes in evaluation" else 1)
    with torch.no_grad():
        seen = world.decoder(world(pictures, test["pushes"])[1])
    return explained(seen[:, 2:-1], test["pictures"][:, 3:])


CASES = cases(
    "ball world",
    train,
    {
        "plain": {},
        "decay of weights": {"optimizer": "adamw"},
        "pixels summed": {"summed": True},
        "likelihood below zero": {"likelihood": True},
        "accumulated": {"batch": 8, "accumulate": 2},
        "large batch, clipped": {"batch": 64, "clip": 0.5},
        "pictures alone": {"latent": 0.0, "never evaluated": True},
    },
    {
        "target of the same moment": ("leak no-skill", {"fault": "same moment"}),
        "latents alone": ("collapse no-gradient unbound", {"fault": "latents alone"}),
        "prediction detached": ("no-gradient unbound slow", {"fault": "prediction detached"}),
        "bytes in evaluation": ("inputs overfit", {"fault": "bytes in evaluation"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "four episodes": ("overfit", {"count": 4}),
    },
)
