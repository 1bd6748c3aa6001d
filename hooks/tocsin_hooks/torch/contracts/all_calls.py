"""The outermost calls of all modules of a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from tocsin_hooks.torch.autograd import compilations
from tocsin_hooks.torch.callbacks import is_elsewhere, weakly


class AllCalls:
    """Calls ``called(module, arguments, output)`` after each call of a module, while it is open."""

    def __init__(self, called: Callable[[Any, Any, Any], None]) -> None:
        self._called = called
        self._handles: list[Any] = []
        self._depth = 0

    @property
    def are_open(self) -> bool:
        return bool(self._handles)

    def open(self) -> None:
        """Watch from now on, unless anything is compiled: it would be compiled again."""
        if not self._handles and not compilations():
            before = register_module_forward_pre_hook(weakly(self._begins))
            after = register_module_forward_hook(weakly(self._ends), always_call=True)
            self._handles, self._depth = [before, after], 0

    def restart(self) -> None:
        """Start again: no module is being called now."""
        self._depth = 0

    def close(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _begins(self, module: Any, args: Any) -> None:
        self._depth += not is_elsewhere(module)

    def _ends(self, module: Any, args: Any, output: Any) -> None:
        if not is_elsewhere(module):
            self._depth = max(0, self._depth - 1)
            if not self._depth and output is not None:
                self._called(module, args, output)
