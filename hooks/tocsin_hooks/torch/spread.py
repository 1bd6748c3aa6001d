"""How much the outputs of a model differ from sample to sample, where no loss compares them."""

from __future__ import annotations

from typing import Any

import torch
from tocsin.model import Role

from tocsin_hooks.torch.captured import StepInHand
from tocsin_hooks.torch.names import Name

_MOST_SAMPLES = 256
_MOST_FEATURES = 4096
_KEY = "tocsin.output"
_MOST_NODES = 4  # between an output and what a loss is given: a softmax, views


def spread_name(output: Name) -> Name:
    return Name(f"{output.name}/spread", ("spreads",), Role.SPREAD, None)


class Spread:
    """Captures the spread of the first output: of embeddings, latents, generated samples.

    What a loss function of PyTorch compares with labels is no such output: it is left out.
    """

    def __init__(self, step: StepInHand) -> None:
        self._step = step
        self._place = 0  # in memory
        self._found: tuple[Name, Any] | None = None

    def forward_ended(self, name: Name, output: Any) -> None:
        """The first forward pass of a saved step gave this tensor."""
        self.forget()
        if output.is_floating_point() and output.dim() > 1 and len(output) > 1:
            self._found = spread_name(name), spread(output)
            self._place = output.untyped_storage().data_ptr()
            if output.grad_fn is not None:  # the tensor itself may be gone when it is compared
                output.grad_fn.metadata[_KEY] = self

    def compared(self, prediction: Any) -> None:
        """A loss compares this with labels."""
        here = prediction.untyped_storage().data_ptr() == self._place
        if self._found is not None and (here or self._is_computed_from(prediction)):
            self.forget()

    def hand_over(self) -> None:
        if self._found is not None:
            self._step.add_named([self._found])
        self.forget()

    def forget(self) -> None:
        self._found = None

    def _is_computed_from(self, prediction: Any) -> bool:
        """Whether it follows from the output alone, in a few steps."""
        node = prediction.grad_fn
        for _ in range(_MOST_NODES):
            if node is None or node.metadata.get(_KEY) is self:
                break
            inner = [each for each, _ in node.next_functions if each is not None]
            node = inner[0] if len(inner) == 1 else None
        return node is not None and node.metadata.get(_KEY) is self


def spread(output: Any) -> Any:
    """The variance over the samples, mean over the features, as a share of the mean square.

    From 0, where all samples are equal, to 1; 0 where all is 0. Shape (): stays on the device.
    Of large outputs some samples and features count.
    """
    values = output.detach().flatten(1)[:_MOST_SAMPLES]
    values = values[:, :: max(1, values.shape[1] // _MOST_FEATURES)].float()
    square = values.square().mean()
    return torch.where(square > 0, values.var(0, correction=0).mean() / square, 0.0)
