"""How much the outputs of a model differ from sample to sample, where no loss compares them."""

from __future__ import annotations

from typing import Any

import torch
from tocsin.model import Role

from tocsin_hooks.torch.captured import StepInHand
from tocsin_hooks.torch.names import Name

_MOST_SAMPLES = 256
_MOST_FEATURES = 4096
_MOST_NODES = 4  # between an output and what a loss is given: a softmax, views


def spread_name(output: Name) -> Name:
    return Name(f"{output.name}/spread", ("spreads",), Role.SPREAD, None)


class Spread:
    """Captures the spread of the first output: of embeddings, latents, generated samples.

    What a loss function of PyTorch compares with labels is no such output: it is left out.
    """

    def __init__(self, step: StepInHand) -> None:
        self._step = step
        self._output: Any = None
        self._found: tuple[Name, Any] | None = None

    def forward_ended(self, name: Name, output: Any) -> None:
        """The first forward pass of a saved step gave this tensor."""
        self.forget()
        if output.is_floating_point() and output.dim() > 1 and len(output) > 1:
            self._output, self._found = output, (spread_name(name), spread(output))

    def compared(self, prediction: Any) -> None:
        """A loss compares this with labels."""
        if self._output is not None and _is_of(prediction, self._output):
            self.forget()

    def hand_over(self) -> None:
        if self._found is not None:
            self._step.add_named([self._found])
        self.forget()

    def forget(self) -> None:
        self._output = self._found = None


def spread(output: Any) -> Any:
    """The variance over the samples, mean over the features, as a share of the mean square.

    From 0, where all samples are equal, to 1; 0 where all is 0. Shape (): stays on the device.
    Of large outputs some samples and features count.
    """
    values = output.detach().flatten(1)[:_MOST_SAMPLES]
    values = values[:, :: max(1, values.shape[1] // _MOST_FEATURES)].float()
    square = values.square().mean()
    return torch.where(square > 0, values.var(0, correction=0).mean() / square, 0.0)


def _is_of(prediction: Any, output: Any) -> bool:
    """Whether a prediction is an output, a part of it, or computed from it alone."""
    if prediction.untyped_storage().data_ptr() == output.untyped_storage().data_ptr():
        return True
    node, wanted = prediction.grad_fn, output.grad_fn
    for _ in range(_MOST_NODES):
        if node is None or wanted is None or node == wanted:
            break
        inner = [each for each, _ in node.next_functions if each is not None]
        node = inner[0] if len(inner) == 1 else None
    return node is not None and node == wanted
