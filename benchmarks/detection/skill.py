"""Measures of skill: 1 is perfect, 0 is what a predictor without inputs reaches."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def class_skill(scores: Tensor, y: Tensor, ignore: int = -100) -> float:
    """Accuracy above that of the most frequent class; scores are (N, C) or (N, C, positions)."""
    found, wanted = scores.argmax(1)[y != ignore], y[y != ignore]
    most = torch.bincount(wanted.flatten()).max().item() / len(wanted)
    right = (found == wanted).double().mean().item()
    return (right - most) / (1 - most) if bool(torch.isfinite(scores).all()) else math.nan


def explained(prediction: Tensor, y: Tensor) -> float:
    """The share of the variance around the mean that is explained."""
    prediction = prediction.reshape(y.shape)
    middle = ((y - y.mean(0)) ** 2).mean().item()
    return 1 - ((prediction - y) ** 2).mean().item() / middle


def ranking_skill(scores: Tensor, y: Tensor) -> float:
    """Twice the area under the ROC curve, less one."""
    scores, y = scores.flatten(), y.flatten()
    if not bool(torch.isfinite(scores).all()):
        return math.nan
    order = scores.argsort()
    ranks = torch.empty(len(y), dtype=torch.float64)
    ranks[order] = torch.arange(1, len(y) + 1, dtype=torch.float64)
    ones = int(y.sum())
    area = (ranks[y > 0.5].sum().item() - ones * (ones + 1) / 2) / (ones * (len(y) - ones))
    return 2 * area - 1


def overlap(scores: Tensor, y: Tensor) -> float:
    """The Jaccard index of masks, above that of marking everything; scores above 0 are marked."""
    if not bool(torch.isfinite(scores).all()):
        return math.nan
    found, true = scores > 0, y > 0.5
    jaccard = (found & true).sum().item() / max(1, (found | true).sum().item())
    base = true.double().mean().item()
    return (jaccard - base) / (1 - base)


def likelihood_skill(nll: float, guess: float, best: float) -> float:
    """Return how far a loss came from that of a guess to the best one."""
    return (guess - nll) / (guess - best)
