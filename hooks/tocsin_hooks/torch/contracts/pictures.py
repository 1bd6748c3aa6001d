"""Contracts of pictures, and of labels of their pixels."""

from __future__ import annotations

from typing import Any

from tocsin_hooks.torch.calls.loss_call import LossCall

_BINARY = "binary_cross_entropy"
_SEVERAL = 8  # pictures
_LEAST_WIDTH = 8
_COLOURS = 3
_OTHER_COLOURS = 1.15  # times the difference of neighbours that are one colour
_MOST = 0.6  # of the pictures


def are_empty_masks(call: LossCall, inputs: list[Any]) -> bool:
    """Return whether all labels of the pixels of several pictures are 0, where the model says
    something of each pixel. Judges of patches, which labels of theirs are real, say less."""
    prediction, target = call.prediction, call.target
    judged = call.has_classes or call.name.startswith(_BINARY)
    if not judged or not target.dim() or len(target) < _SEVERAL:
        return False
    size = tuple(prediction.shape[2:])
    of_pixels = len(size) == 2 and min(size) >= _LEAST_WIDTH
    same = (each.dim() == 4 and tuple(each.shape[2:]) == size for each in inputs)
    return of_pixels and any(same) and bool((target == 0).all())


def are_scrambled(inputs: list[Any]) -> bool:
    """Return whether pictures (N, 3, H, W) hold the numbers of pictures (N, H, W, 3) in their
    order: there the third number is more like one than its neighbour is, for it has the same
    colour."""
    return any(_is_scrambled(each.detach()) for each in inputs if _are_pictures(each))


def _are_pictures(each: Any) -> bool:
    shaped = each.dim() == 4 and each.shape[1] == _COLOURS and each.is_floating_point()
    return shaped and len(each) >= _SEVERAL and min(each.shape[2:]) >= _LEAST_WIDTH


def _is_scrambled(pictures: Any) -> bool:
    near, far = (
        (pictures[..., :-apart] - pictures[..., apart:]).abs().mean((1, 2, 3)) for apart in (1, 3)
    )
    return bool((near.mean() > _OTHER_COLOURS * far.mean()) & (near > far).float().mean().gt(_MOST))
