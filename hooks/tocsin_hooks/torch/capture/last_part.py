"""Output of the last part of a model that itself returns only a loss."""

from __future__ import annotations

from typing import Any

from tocsin_hooks.hook import Hook
from tocsin_hooks.torch.callbacks import is_elsewhere, safely
from tocsin_hooks.torch.names import is_compiled, unwrapped
from tocsin_hooks.torch.outermost_calls import parts_of
from tocsin_hooks.torch.root import ModuleHook
from tocsin_hooks.torch.values import tensors_in

_MOST_OUTPUTS = 8


class LastPart:
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
