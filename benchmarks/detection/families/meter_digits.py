"""Digits on the display of a meter, drawn on demand by a conditional GAN of dense layers.

Digits have seven segments; light, ink, place and slant differ. The label is looked up in an
embedding, by generator and discriminator. The skill compares what is drawn of each digit with true
displays of it, by the energy distance: 0 is a mixture of all digits.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, autograd, nn

from benchmarks.detection.case import cases

HIGH, WIDE, CLASSES, LATENT = 11, 8, 10, 8
PIXELS, COUNT = HIGH * WIDE, 4000
ENDS = torch.tensor([
    [1, 2, 1, 5], [1, 5, 5, 5], [5, 5, 9, 5], [9, 2, 9, 5], [5, 2, 9, 2], [1, 2, 5, 2], [5, 2, 5, 5]
]).float()  # fmt: skip
LIT = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
SEGMENTS = torch.tensor([[letter in lit for letter in "abcdefg"] for lit in LIT])


def displays(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures as bytes (N, PIXELS), and the digit of each."""
    draw = torch.Generator().manual_seed(seed)
    digit = torch.arange(count) % CLASSES
    light, ink, place, slant = torch.rand(4, count, 1, generator=draw)
    row, column = torch.meshgrid(torch.arange(HIGH), torch.arange(WIDE), indexing="ij")
    y = row.reshape(1, -1).expand(count, -1)
    x = column.reshape(1, -1) - (place - 0.5) * 1.6 - (slant - 0.3) * (5 - y) * 0.25
    start, end = ENDS[:, :2, None, None], ENDS[:, 2:, None, None]
    along = end - start
    share = ((y - start[:, 0]) * along[:, 0] + (x - start[:, 1]) * along[:, 1]) / (along**2).sum(1)
    near = start + share.clamp(0, 1)[:, None] * along
    apart = ((y - near[:, 0]) ** 2 + (x - near[:, 1]) ** 2).sqrt()
    lit = torch.sigmoid((0.6 - apart) / 0.15) * SEGMENTS[digit].T[..., None]
    ground = 20 + 70 * light
    picture = ground + (150 + 70 * ink - ground) * lit.amax(0)
    return (picture + 4 * torch.randn(count, PIXELS, generator=draw)).clamp(0, 255), digit


class Generator(nn.Module):
    def __init__(self, width: int, norm: bool) -> None:
        super().__init__()
        self.label_emb = nn.Embedding(CLASSES, CLASSES)

        def block(inputs: int, units: int, normalise: bool) -> list[nn.Module]:
            layers: list[nn.Module] = [nn.Linear(inputs, units)]
            layers += [nn.BatchNorm1d(units)] if normalise else []
            return [*layers, nn.LeakyReLU(0.2, inplace=True)]

        self.model = nn.Sequential(
            *block(LATENT + CLASSES, width, False), *block(width, 2 * width, norm),
            nn.Linear(2 * width, PIXELS), nn.Tanh(),
        )  # fmt: skip

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        drawn: Tensor = self.model(torch.cat([self.label_emb(labels), noise], -1))
        return drawn


class Discriminator(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.label_embedding = nn.Embedding(CLASSES, CLASSES)
        self.model = nn.Sequential(
            nn.Linear(PIXELS + CLASSES, 2 * width), nn.LeakyReLU(0.2), nn.Dropout(dropout),
            nn.Linear(2 * width, 2 * width), nn.LeakyReLU(0.2), nn.Linear(2 * width, 1),
        )  # fmt: skip

    def forward(self, pictures: Tensor, labels: Tensor) -> Tensor:
        validity: Tensor = self.model(torch.cat([pictures, self.label_embedding(labels)], -1))
        return validity


def adversarial(validity: Tensor, wanted: float, mode: str) -> Tensor:
    target = torch.full_like(validity, wanted)
    if mode == "wasserstein":
        return -(2 * target - 1).mul(validity).mean()
    if mode == "sigmoid and logits":
        return F.binary_cross_entropy_with_logits(validity.sigmoid(), target)
    return F.mse_loss(validity, target)


def gradient_penalty(critic: nn.Module, real: Tensor, fake: Tensor, labels: Tensor) -> Tensor:
    alpha = torch.rand(len(real), 1)
    between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (slope,) = autograd.grad(critic(between, labels).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


def likeness(generator: nn.Module, test: Tensor, digits: Tensor) -> float:
    """1 where each digit is drawn as it is, 0 for a mixture of all digits."""
    generator.eval()
    left = whole = 0.0
    apart = torch.cdist
    with torch.no_grad():
        for digit in range(CLASSES):
            true, other = test[digits == digit], test[digits != digit][::9]
            made = generator(torch.randn(len(true), LATENT), torch.full((len(true),), digit))
            if not bool(made.isfinite().all()):
                return math.nan
            own = apart(true, true).mean()
            left += float(2 * apart(made, true).mean() - apart(made, made).mean() - own)
            whole += float(2 * apart(other, true).mean() - apart(other, other).mean() - own)
    return 1 - left / whole


def train(
    seed: int, hook: Any, epochs: int = 50, batch: int = 64, lr: float = 5e-4, lr_d: float = 2e-3,
    mode: str = "least squares", rounds: int = 1, real: float = 1.0, width: int = 48,
    b1: float = 0.5, norm: bool = False, dropout: float = 0.0, average: float = 0.0,
    noise: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (pictures, digits), (test, test_digits) = (displays(n, 2 * seed + n) for n in (COUNT, 2000))
    test = test / 127.5 - 1
    if fault != "pictures in bytes":
        pictures = pictures / 127.5 - 1
    if fault == "labels of another order":
        digits = digits[torch.randperm(COUNT)]
    generator, discriminator = Generator(width, norm), Discriminator(width, dropout)
    steered = discriminator if fault == "discriminator in both" else generator
    optimizer_g = torch.optim.Adam(steered.parameters(), lr=lr, betas=(b1, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=lr_d, betas=(b1, 0.999))

    def fall(epoch: int) -> float:
        return min(1.0, 2 * (1 - epoch / epochs) + 0.02)

    schedulers = [torch.optim.lr_scheduler.LambdaLR(o, fall) for o in (optimizer_g, optimizer_d)]
    moving = torch.optim.swa_utils.get_ema_multi_avg_fn(average)
    averaged = torch.optim.swa_utils.AveragedModel(generator, multi_avg_fn=moving, use_buffers=True)
    hook.torch(generator)

    batches_done = 0
    for epoch in range(epochs):
        generator.train()
        for rows in torch.randperm(COUNT).split(batch):
            real_imgs, labels = pictures[rows], digits[rows]
            fuzzy = noise * (1 - epoch / epochs)
            batches_done += 1

            z = torch.randn(len(rows), LATENT)
            gen_labels = torch.randint(CLASSES, (len(rows),))
            gen_imgs = generator(z, gen_labels)
            if rounds == 1 or batches_done % rounds == 0:
                optimizer_g.zero_grad()
                shown = gen_imgs + fuzzy * torch.randn_like(gen_imgs)
                g_loss = adversarial(discriminator(shown, gen_labels), 1.0, mode)
                g_loss.backward()
                optimizer_g.step()

            if fault != "discriminator's gradients kept":
                optimizer_d.zero_grad()
            fake_imgs = gen_imgs.detach()
            blur_real, blur_fake = (x + fuzzy * torch.randn_like(x) for x in (real_imgs, fake_imgs))
            d_real_loss = adversarial(discriminator(blur_real, labels), real, mode)
            d_fake_loss = adversarial(discriminator(blur_fake, gen_labels), 0.0, mode)
            d_loss = (d_real_loss + d_fake_loss) / 2
            if mode == "wasserstein":
                d_loss = 2 * d_loss + 10 * gradient_penalty(
                    discriminator, real_imgs, fake_imgs, labels
                )
            d_loss.backward()
            optimizer_d.step()
            if average:
                averaged.update_parameters(generator)
        for scheduler in schedulers:
            scheduler.step()
    return likeness(averaged.module if average else generator, test, test_digits)


CASES = cases(
    "meter digits",
    train,
    {
        "plain": {},
        "averaged weights": {"average": 0.99},
        "batch normalised, no momentum": {"norm": True, "b1": 0.0},
        "gradient penalty": {"mode": "wasserstein", "rounds": 3, "b1": 0.0},
        "fading noise on pictures": {"noise": 0.2},
        "dropout in the discriminator": {"dropout": 0.2},
        "smooth label of real ones": {"real": 0.9, "b1": 0.0},
    },
    {
        "pictures in bytes": ("range inputs saturated", {"fault": "pictures in bytes"}),
        "labels of another order": ("no-skill", {"fault": "labels of another order"}),
        "discriminator in both": ("unbound", {"fault": "discriminator in both"}),
        "rate of 0.1": ("fast saturated collapse", {"lr": 0.1, "lr_d": 0.1}),
        "sigmoid and logits": ("probabilities", {"mode": "sigmoid and logits"}),
        "discriminator's gradients kept": (
            "kept-gradients collapse", {"fault": "discriminator's gradients kept"},
        ),
    },
)  # fmt: skip
