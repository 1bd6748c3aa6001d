"""Checks of one's own, for a training that predicts prices.

The training names this file: ``TorchHook.attach(model, run, checks="prices.py")``.
"""

from __future__ import annotations

import torch
from tocsin_hooks.torch import Finding, LossComputed, UpdateBegins, check

LIMIT = 1.0  # of clip_grad_norm_ in our training scripts


@check(
    "prices.negative_target",
    "critical",
    says="a price is negative",
    cause="refunds are mixed with sales, and the model learns from both",
    advice="drop rows whose quantity is below 0",
)
def negative_target(event: LossComputed) -> Finding | None:
    lowest = event.target.min().item()
    return Finding(f"the lowest is {lowest:.2f}") if lowest < 0 else None


@check(
    "prices.not_clipped",
    "warning",
    says="the optimizer gets gradients above the limit of clip_grad_norm_",
    cause="one unusual order can undo the training of an hour",
    advice="call clip_grad_norm_(model.parameters(), 1.0) between backward() and step()",
    looks=100,
)
def not_clipped(event: UpdateBegins) -> Finding | None:
    gradients = [each.grad for each in event.model.parameters() if each.grad is not None]
    norm = torch.stack([each.norm() for each in gradients]).norm().item() if gradients else 0.0
    return Finding(f"their norm is {norm:.1f}") if norm > LIMIT * 1.01 else None
