"""Watch the latent space of a variational autoencoder unfold over training, or collapse.

The reconstruction error is to be summed over the pixels. Averaged, as loss functions do by default,
it is too small against the divergence from the prior, and the encoder learns to say nothing of its
input. The custom rule ``PosteriorCollapse`` of ``examples/rules_custom`` fires then. The latent
means are captured in evaluations, and drawn in two dimensions by principal components.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tocsin import create_trial, modes
from tocsin.custom import load_files
from tocsin.evaluation import check, document
from tocsin.rules import find_rule
from tocsin.tensors import open_storage
from tocsin.watch import read_watch
from tocsin_hooks.torch import TorchHook
from torch import Tensor, nn

from examples.autoencoder_latent.animation import animation
from examples.digits_torch import digits
from examples.shown import Shown

WATCH = Path(__file__).with_name("watch.yaml")
RULE = Path(__file__).parents[1] / "rules_custom" / "posterior_collapse.py"
UNITS = 8  # of the latent space
EVERY = 15  # training steps between two evaluations


class Autoencoder(nn.Module):
    """Images (n, 64) to images, and the means and log variances of their latents (n, UNITS)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * UNITS))
        self.decoder = nn.Sequential(nn.Linear(UNITS, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        latent = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        return self.decoder(latent), mean, log_variance


def train(out: Path, steps: int, *, averaged: bool) -> None:
    """Trains, with the fault if the error is ``averaged`` over the pixels."""
    if find_rule("PosteriorCollapse") is None:
        load_files(RULE)
    torch.manual_seed(0)
    images, _, test_images, _ = digits(0)
    mean, deviation = images.mean(), images.std()
    images, test_images = ((each - mean).flatten(1) / deviation for each in (images, test_images))
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    intervals = {modes.TRAIN: EVERY, modes.EVAL: 1}
    hook = TorchHook.attach(model, out, watch=WATCH, save_interval=intervals)
    for step in range(steps):
        if step % EVERY == 0:
            model.eval()
            with torch.no_grad():
                hook.save("latent_mean", model(test_images)[1], "latents")
            model.train()
        batch = images[torch.randint(len(images), (128,))]
        rebuilt, mean, log_variance = model(batch)
        errors = (rebuilt - batch).square() / 2
        error = errors.mean() if averaged else errors.sum(dim=1).mean()
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1).mean() / 2
        optimizer.zero_grad()
        (error + divergence).backward()
        optimizer.step()
    hook.close()


def latents(run: Path) -> NDArray[Any]:
    """The latent means of each evaluation, in two dimensions: (evaluations, samples, 2)."""
    means = np.stack(
        [*create_trial(str(run)).tensor("latent_mean").values(mode=modes.EVAL).values()]
    )
    centred = means - means.mean(axis=(0, 1))
    _, _, components = np.linalg.svd(centred.reshape(-1, UNITS), full_matrices=False)
    flat: NDArray[Any] = centred @ components[:2].T
    return flat


def verdict(run: Path) -> tuple[str, str]:
    """Return what the rule found, and at which evaluation it fired."""
    (found,) = document(check(open_storage(run), read_watch(WATCH))[0])["rules"]
    fired = found["FiredAt"]
    where = f"after {fired['mode_step'] * EVERY} training steps" if fired else "never"
    return found["StatusDetails"] or "silent", where


def run(out: Path, *, small: bool = False) -> Shown:
    """Trains with and without the fault. The small form has fewer steps."""
    figures: dict[str, str] = {}
    panels: dict[str, NDArray[Any]] = {}
    for name, averaged in (("summed", False), ("averaged", True)):
        place = out / name
        train(place, 160 if small else 600, averaged=averaged)
        found, where = verdict(place)
        panels[f"error {name} over pixels"] = flat = latents(place)
        spread = np.sqrt(flat.var(axis=1).sum(axis=1))
        figures |= {
            f"{name}: PosteriorCollapse": found,
            f"{name}: it fired": where,
            f"{name}: standard deviation of the latent means": (
                f"{spread[0]:.2g} at first, {spread.max():.2g} at most, {spread[-1]:.2g} in the end"
            ),
        }
    _, _, _, labels = digits(0)
    return Shown(figures, animation(panels, labels.numpy(), EVERY))
