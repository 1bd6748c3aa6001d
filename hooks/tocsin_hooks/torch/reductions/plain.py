"""Tensors without what autograd, wrappers and layouts add to them."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin

from tocsin_hooks.torch.autograd import holds_numbers, is_wrapper

_MOST_DENSE = 1 << 26  # elements of a sparse tensor that is written out


def plain(tensor: Any) -> Any:
    """Return the strided tensor of numbers that ``tensor`` stands for; None where there are no
    numbers.

    There are none on the meta device, in fake tensors and those not yet initialised, inside a
    function transform, and while a CUDA graph is being captured, which must not be disturbed.
    Of a tensor that is spread over devices it is the part that lies here. A sparse tensor counts
    its zeros, so it is made dense. Raises TypeError for what cannot be seen through.
    """
    if not _holds_numbers(tensor):
        return None
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if is_wrapper(tensor):
        raise TypeError(f"a {type(tensor).__name__} does not expose its values")
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        if tensor.numel() > _MOST_DENSE:
            raise TypeError(f"a sparse tensor of {tensor.numel()} elements is too large")
        tensor = tensor.to_dense()
    if tensor.dtype == torch.complex32:  # numpy does not have it
        tensor = tensor.to(torch.complex64)
    if type(tensor) is not torch.Tensor:
        tensor = tensor.as_subclass(torch.Tensor)
    return tensor.resolve_conj().resolve_neg()


def _holds_numbers(tensor: Any) -> bool:
    return not (
        tensor.is_meta
        or isinstance(tensor, UninitializedTensorMixin)
        or not holds_numbers(tensor)
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )
