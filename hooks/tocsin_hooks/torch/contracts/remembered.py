"""Earlier values of parameters, to find out later whether they have changed."""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch

from tocsin_hooks.torch.reductions.plain import plain

_SAMPLED = 16  # elements of a parameter


class Remembered:
    """A sample of the elements of each parameter of a model, at one time."""

    def __init__(self) -> None:
        self._samples: dict[int, tuple[Any, Any]] = {}

    def remember(self, root: Any) -> None:
        self._samples = {id(each): (ref(each), _sample(each)) for each in root.parameters()}

    def any_changed(self, root: Any) -> bool:
        return any(self.has_changed(each) for each in root.parameters())

    def has_changed(self, parameter: Any) -> bool:
        """Return whether a parameter has changed, as far as that is known."""
        kept = self._kept(parameter)
        return bool(self._samples) if kept is None else not bool(kept.all())

    def was_changed(self, parameter: Any) -> bool:
        """Return whether it is known that it has changed: not of one that was not there before."""
        kept = self._kept(parameter)
        return kept is not None and not bool(kept.all())

    def is_mostly_kept(self, parameter: Any) -> bool:
        """Return whether most elements with a gradient other than 0 are unchanged."""
        kept, gradient = self._kept(parameter), parameter.grad
        if kept is None:
            return False
        if gradient is not None and not gradient.is_sparse:
            kept = kept[_sample(gradient) != 0]
        return bool(kept.float().mean() > 0.5)

    def _kept(self, parameter: Any) -> Any:
        """Return which elements of the sample are unchanged; None if unknown."""
        known = self._samples.get(id(parameter))
        if known is None or known[0]() is not parameter:
            return None
        now = _sample(parameter)
        return now == known[1] if now.shape == known[1].shape else None


def _sample(parameter: Any) -> Any:
    """A few elements; of a distributed tensor only those of this process."""
    here = plain(parameter)
    flat = torch.empty(0) if here is None else here.flatten()
    return flat[:: max(1, len(flat) // _SAMPLED)][:_SAMPLED].clone()
