"""A TorchHook whose steps a trainer sets, because it knows better than PyTorch's hooks when a model
is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tocsin_hooks.torch import TorchHook


class _Event:
    """The beginning or the end of the passes that a trainer says."""

    def __init__(self, handle: Callable[[], None]) -> None:
        self._handle = handle

    def repeat(self, subject: Any, samples: int) -> None:
        """Handle one that was skipped."""
        self._handle()


class Driver:
    """Notifies a TorchHook of forward passes that it does not see, and hides others from it.

    ``compiled``: the passes that are begun here run compiled code, in which no activations are
    visible. A hook that could not attach itself is passed over.
    """

    def __init__(self, hook: TorchHook, *, compiled: bool = False) -> None:
        self._training = hook.training
        token = torch.nn.Identity()  # stands for the module whose call a pass would be
        self._token: Any = torch.compile(token) if compiled else token
        self._begins, self._ends = _Event(self._begin), _Event(self._end)

    def called(self, model: Any, arguments: Any) -> None:
        """Handle a call of the model, which has looked for its hooks already."""
        if self._training is not None:
            self._training.forward_begins(model, arguments, {})

    def begin(self) -> None:
        """Begin a forward pass; calls of the model in it are part of it."""
        if self._training is not None and not self._training.idle.skips(self._begins, self._token):
            self._begin()

    def end(self) -> None:
        """End the pass that was begun here."""
        if self._training is not None and not self._training.idle.skips(self._ends, self._token):
            self._end()

    def _begin(self) -> None:
        self.called(self._token, ())

    def _end(self) -> None:
        if self._training is not None:
            self._training.forward_ends(self._token, (), {}, ())
