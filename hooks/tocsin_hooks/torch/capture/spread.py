"""Spread of a model's outputs over the samples, if no loss compares the outputs with labels."""

from __future__ import annotations

from typing import Any

import torch

from tocsin_hooks.hook import Hook
from tocsin_hooks.looks import Name
from tocsin_hooks.torch.autograd import edges_of
from tocsin_hooks.torch.callbacks import is_elsewhere, safely
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.names import is_compiled, output_name, spread_name, unwrapped
from tocsin_hooks.torch.outermost_calls import parts_of
from tocsin_hooks.torch.root import ModuleHook
from tocsin_hooks.torch.values import tensors_in

_MOST_SAMPLES = 256
_MOST_FEATURES = 4096
_MOST_OUTPUTS = 8
_MOST_NODES = 8  # between an output and what a loss is given: a softmax, views

Place = object


class Spread:
    """Captures the spread of the first output: embeddings, latents, generated samples. If a model
    returns only its loss, it is the output of the part that was called last.

    What a loss function of PyTorch compares with labels, in the model or after it, is no such
    output: it is left out.
    """

    def __init__(self, step: CurrentStep) -> None:
        self._step = step
        self._compared: set[Place] = set()
        self._found: tuple[Place, Name, Any] | None = None
        self._last_part = _LastPart(step.hook)

    def forward_begins(self, root: Any) -> None:
        """Handle the start of the first forward pass of a saved step."""
        self._last_part.forward_begins(root)

    def forward_ended(self, model: str, output: Any) -> None:
        """It gave this output."""
        part = self._last_part.forward_ended(output)
        if part is not None and _place(part[1]) not in self._compared:
            name = output_name(part[0], "0")
            self._step.add_output(name, part[1])
            self._find(name, part[1])
        elif part is None:
            for label, each in tensors_in(output, 1):
                self._find(output_name(model, label), each)

    def close(self) -> None:
        """Stop watching parts: the pass may have failed."""
        self._last_part.close()

    def _find(self, name: Name, output: Any) -> None:
        if output.is_floating_point() and output.dim() > 1 and len(output) > 1:
            self._found = _place(output), spread_name(name), spread(output)

    def compared(self, prediction: Any) -> None:
        """A loss compares this with labels, and so what it alone was computed from."""
        self._compared.add(_place(prediction))
        node = prediction.grad_fn
        for _ in range(_MOST_NODES):
            if node is None:
                break
            self._compared.add(node)
            inner = edges_of(node)
            node = inner[0][0] if len(inner) == 1 else None

    def flush(self) -> None:
        """Add the findings to the current step at its end."""
        if self._found is not None and self._found[0] not in self._compared:
            self._step.add_named([self._found[1:]])
        self._found = None
        self._compared.clear()


def _place(tensor: Any) -> Place:
    """The node that computed a tensor, which may be gone when it is asked; else its memory."""
    return tensor.grad_fn or tensor.untyped_storage().data_ptr()


def spread(output: Any) -> Any:
    """Return the variance over the samples, mean over the features, as a share of the mean square.

    From 0, where all samples are equal, to 1; 0 where all is 0. Shape (): stays on the device.
    Of large outputs some samples and features count.
    """
    values = output.detach().flatten(1)[:_MOST_SAMPLES]
    values = values[:, :: max(1, values.shape[1] // _MOST_FEATURES)].float()
    square = values.square().mean()
    return torch.where(square > 0, values.var(0, correction=0).mean() / square, 0.0)


class _LastPart:
    """Finds the output of the part that was called last, of those that gradients flow from.

    Many a model compares its embeddings itself, and returns the loss alone. That is known after one
    forward pass, and parts are looked at in later ones.
    """

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._handles: list[Any] = []
        self._gives_numbers = False
        self._found: tuple[str, Any] | None = None

    def forward_begins(self, root: Any) -> None:
        """Look at the parts until the forward pass has ended."""
        self.close()
        if self._gives_numbers:
            for name, part in parts_of(unwrapped(root)):
                if not is_compiled(part):  # it would be compiled again for another hook
                    self._watch(name, part)

    def forward_ended(self, output: Any) -> tuple[str, Any] | None:
        """Return the name and output of the last part, if the model returned only numbers."""
        given = [each for _, each in tensors_in(output, _MOST_OUTPUTS)]
        self._gives_numbers = bool(given) and not any(each.dim() for each in given)
        found = self._found if self._gives_numbers else None
        self.close()
        return found

    def close(self) -> None:
        self._found = None
        while self._handles:
            self._handles.pop().remove()

    def _watch(self, name: str, part: Any) -> None:
        def ended(module: Any, _: Any, __: Any, output: Any) -> None:
            first = next(iter(tensors_in(output, 1)), None)
            if first is not None and first[1].requires_grad and not is_elsewhere(module):
                self._found = name, first[1]

        seen = ModuleHook(safely(self._hook, ended), None, before=False)
        self._handles.append(part.register_forward_hook(seen, with_kwargs=True))
