"""A generator and a discriminator, each with its optimizer, one update of each in turn."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.detection.loop import Loop, batches
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training
from benchmarks.detection.tasks.ring_points import LATENT


def train(t: Training, hook: RunHook) -> float:
    generator, discriminator = t.model["generator"], t.model["discriminator"]
    rate = t.rate * (1e-4 if t.slip == "generator hardly moves" else 1)
    of_generator = torch.optim.Adam(generator.parameters(), rate, (0.5, 0.999))
    judge = generator if t.slip == "two optimizers of the generator" else discriminator
    of_discriminator = torch.optim.Adam(judge.parameters(), t.rate, (0.5, 0.999))
    hook.torch(t.model)

    def noise() -> Tensor:
        drawn = torch.randn(t.batch, LATENT)
        return 0 * drawn if t.slip == "noise left at zero" else drawn

    for real, _ in batches(t):
        on_real, on_drawn = discriminator(real), discriminator(generator(noise()).detach())
        against = t.loss(on_real, torch.ones_like(on_real))
        against = against + t.loss(on_drawn, torch.zeros_like(on_drawn))
        of_discriminator.zero_grad()
        against.backward()
        of_discriminator.step()

        drawn = generator(noise())
        judged = discriminator(drawn.detach() if t.slip == "generator detached" else drawn)
        swapped = t.slip == "labels of the generator swapped"
        wanted = torch.zeros_like(judged) if swapped else torch.ones_like(judged)
        of_generator.zero_grad()
        t.loss(judged, wanted).backward()
        of_generator.step()
    generator.eval()
    with torch.no_grad():
        return t.skill(generator(torch.randn(1000, LATENT)), t.samples.held_y)


LOOP = Loop(
    train,
    needs=frozenset(["adversarial"]),
    without=frozenset(),
    parts=frozenset(["settings", "adversarial"]),
)
