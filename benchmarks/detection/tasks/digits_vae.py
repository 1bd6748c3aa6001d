"""A variational autoencoder of digits: the evidence bound, written by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import dense
from benchmarks.detection.skill import explained
from benchmarks.detection.task import Task
from benchmarks.detection.tasks.digits_autoencoder import samples

CODE = 8


class VariationalAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = dense([64, 64, 2 * CODE]), dense([CODE, 64, 64])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        noise = torch.randn_like(mean) if self.training else 0
        code = mean + noise * (log_variance / 2).exp()
        return self.decoder(code).sigmoid(), mean, log_variance


def bound(outputs: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    made, mean, log_variance = outputs
    reconstruction = F.binary_cross_entropy(made, x, reduction="none").sum(1).mean()
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
    return reconstruction + divergence


TASK = Task(
    frozenset(["reconstruction", "vae", "tuple", "relu"]),
    samples,
    VariationalAutoencoder,
    bound,
    lambda outputs, y: explained(outputs[0], y),
    {"steps": 900, "rate": 2e-3},
)
