"""Shapes that meet in a loss by hand so that each sample is combined with each."""

from __future__ import annotations

from typing import Any

import torch

from tocsin_hooks.torch.autograd import is_view, makes_room

_OF_MAPS = 4  # axes: samples, channels, rows, columns


def broadcasts(one: Any, other: Any) -> bool:
    """Return whether shapes as (N, 1) and (N) meet, of which one is computed and the other given.
    Of as many axes, as (N, 1) and (1, N), all pairs are meant."""
    count = one.numel()
    if one.dim() == other.dim() or count != other.numel() or count < 2:
        return False
    if one.requires_grad == other.requires_grad or one.squeeze().shape != other.squeeze().shape:
        return False
    return bool(torch.broadcast_shapes(one.shape, other.shape).numel() > count)


def broken_by_difference(one: Any, other: Any, result: Any, samples: int) -> bool:
    """Return whether predictions and labels are subtracted each from each: of so many samples, or
    of several passes with so many."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    computed = one if one.requires_grad else other
    return isinstance(result, torch.Tensor) and (
        goes_across(one, other, samples)
        or _is_column_beside_row(one, other, samples)
        or (
            {one.dim(), other.dim()} == {1, 2}
            and one.numel() % samples == 0
            and computed.grad_fn is not None
            and one.data_ptr() != other.data_ptr()
            and broadcasts(one, other)
        )
    )


def _is_column_beside_row(one: Any, other: Any, samples: int) -> bool:
    """Return whether what a layer gives for each sample is a column and the labels are a row, or
    the reverse. Who compares each with each puts an axis into what is computed."""
    computed = one if one.requires_grad else other
    return (
        one.requires_grad != other.requires_grad
        and {tuple(one.shape), tuple(other.shape)} == {(samples, 1), (1, samples)}
        and computed.grad_fn is not None
        and not makes_room(computed.grad_fn)
    )


def goes_across(one: Any, other: Any, samples: int) -> bool:
    """Return whether what is computed of each of so many samples meets what is given of each, as a
    label, a mask or a weight, and nobody can have meant that."""
    return (
        isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and one.dim() != other.dim()
        and one.dim() > 0 < other.dim()
        and len(one) == len(other) == samples
        and broadcasts(one, other)
        and _is_no_choice(one, other)
    )


def _is_no_choice(one: Any, other: Any) -> bool:
    """Return whether no axis was put in to combine them: who compares each with each does that. But
    a layer ends with an axis of one channel, and so do masks that are read so."""
    more, fewer = (one, other) if one.dim() > other.dim() else (other, one)
    if more.requires_grad:
        return more.grad_fn is not None and not makes_room(more.grad_fn)
    return more.dim() >= _OF_MAPS and not is_view(more) and fewer.grad_fn is not None
