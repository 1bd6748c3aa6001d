"""Many tensors in the rows of a few, so that one kernel reduces them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tocsin_hooks.torch.autograd import copy_all

CHUNK = 1 << 21
"""Elements that are worked on at a time: no temporary is larger, and few kernels are launched."""


def rows_of(size: int, width: int) -> int:
    """Return the rows that so many elements take."""
    return max(1, -(-size // width))


def packed(
    tensors: Sequence[Any], sizes: Sequence[int], width: int, fill: float, dtype: Any
) -> Iterator[Any]:
    """Yield the first elements of each tensor, in C order, as rows of ``width``.

    A tensor begins with a row of its own; what is left of its last row is ``fill``. The rows of
    all tensors follow each other, and come in pieces of at most ``CHUNK`` elements. ``tensors``
    have one type and lie on one device.
    """
    for chunk in _chunks(sizes, max(1, CHUNK // width), width):
        last, start, stop, row = chunk[-1]
        shape = row + rows_of(stop - start, width), width
        rows = torch.full(shape, fill, dtype=dtype, device=tensors[last].device)
        flat = rows.view(-1)
        copy_all(
            [flat[row * width : row * width + stop - start] for _, start, stop, row in chunk],
            [piece(tensors[which], start, stop) for which, start, stop, _ in chunk],
        )
        yield rows


def piece(tensor: Any, start: int, stop: int) -> Any:
    """Elements ``start`` to ``stop`` of the flattened tensor, copied only if they lie scattered."""
    if tensor.is_contiguous():
        flat = tensor.view(-1)
        return flat if stop - start == flat.numel() else flat[start:stop]
    if tensor.dim() == 1:
        return tensor[start:stop]
    inner = tensor.numel() // tensor.shape[0]
    first, last = start // inner, (stop - 1) // inner
    start, stop = start - first * inner, stop - last * inner
    if first == last:
        return piece(tensor[first], start, stop)
    head, tail = piece(tensor[first], start, inner), piece(tensor[last], 0, stop)
    return torch.cat([head, tensor[first + 1 : last].reshape(-1), tail])


def pieces(tensor: Any) -> Iterator[Any]:
    """Yield a flattened tensor, ``CHUNK`` elements at a time."""
    size = tensor.numel()
    for start in range(0, size, CHUNK):
        yield piece(tensor, start, min(start + CHUNK, size))


def strided(tensor: Any, stride: int) -> Any:
    """Every so many elements of the flattened tensor."""
    if tensor.is_contiguous() or tensor.dim() == 1:
        return tensor.reshape(-1)[::stride]
    starts = range(0, tensor.numel(), CHUNK)
    found = [
        flat[-start % stride :: stride] for start, flat in zip(starts, pieces(tensor), strict=True)
    ]
    return torch.cat(found)


_Part = tuple[int, int, int, int]  # which tensor, from where to where, the row that it goes to


def _chunks(sizes: Sequence[int], most: int, width: int) -> Iterator[list[_Part]]:
    """The places of each chunk of at most so many rows."""
    chunk: list[_Part] = []
    used = 0
    for which, size in enumerate(sizes):
        start = 0
        while start < size:
            if used == most:
                yield chunk
                chunk, used = [], 0
            stop = min(size, start + (most - used) * width)
            chunk.append((which, start, stop, used))
            used += rows_of(stop - start, width)
            start = stop
    if chunk:
        yield chunk
