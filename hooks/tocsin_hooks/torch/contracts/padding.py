"""Predictions and losses that depend on padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tocsin_hooks.torch.calls.loss_call import LossCall

_PADDED = 0.5  # of the samples
_LENGTHS = 3  # of the padding
_ROWS = 4  # that have several tokens and several places of padding
_TOKENS = 3
_PLACES = 2
_MOST = 0.9  # of these
_COUNTED = 0.5  # of the labels
_OWN = 1  # token that a prediction is made at: it may be added to what was attended to


def reads_padding(prediction: Any, tokens: Any, embedded: Any) -> bool:
    """Return whether predictions of samples depend on most of the padding, and on no token but one.

    ``tokens``: integers, shape (N, L); ``embedded``: (N, L, D); ``prediction``: equally many of
    each sample, in any order, computed of these. Asks autograd, which gives exactly 0 for what is
    masked. Raises RuntimeError where no gradient can be computed.
    """
    if len(prediction) % len(tokens) or (padding := padding_of(tokens)) is None:
        return False
    counts = padding.sum(1)
    rows = (counts >= _PLACES) & (tokens.shape[1] - counts >= _TOKENS)
    if int(rows.sum()) < _ROWS:
        return False
    weights = torch.cos(torch.arange(prediction.numel(), device=prediction.device))
    with torch.enable_grad():
        asked = (prediction.flatten() * weights.to(prediction.dtype)).sum()
    (found,) = torch.autograd.grad(asked, embedded, retain_graph=True, allow_unused=True)
    if found is None or not bool(found.isfinite().all()):
        return False
    depends = (found != 0).any(-1)
    reads = (depends & ~padding).sum(1) <= _OWN
    reads &= 2 * (depends & padding).sum(1) >= counts
    return bool(reads[rows].float().mean() >= _MOST)


def padding_of(tokens: Any) -> Any:
    """Return where tokens are padding, at the end of samples or at their start; None if that is not
    known: of a token that stands nowhere else, and in samples of several lengths."""
    for turned in (False, True):
        own = tokens.flip(1) if turned else tokens
        pad = own[:, -1].mode().values
        found = own == pad
        padding = found.flip(1).cumprod(1).flip(1).bool()
        counts = padding.sum(1)
        padded = bool((counts > 0).float().mean() >= _PADDED)
        if padded and len(counts.unique()) >= _LENGTHS and torch.equal(found, padding):
            return padding.flip(1) if turned else padding
    return None


def counts_padding(call: LossCall, inputs: Sequence[Any]) -> bool:
    """Return whether most labels of a loss are at padding positions of the input, and are padding
    themselves.
    """
    weighted = call.arguments.get("weight") is not None
    if not call.has_classes or weighted or call.arguments.get("reduction") == "none":
        return False
    for tokens in inputs:
        if tokens.is_floating_point() or tokens.dim() != 2 or tokens.numel() != call.target.numel():
            continue
        if (padding := padding_of(tokens)) is None:
            continue
        pad = tokens[padding][0]
        same = (call.target.reshape(tokens.shape)[padding] == pad).float().mean()
        counted = pad != call.arguments.get("ignore_index", -100)
        return bool(counted & (same >= _MOST) & (padding.float().mean() >= _COUNTED))
    return False
