"""The hooks that a training script attaches, with nothing but their defaults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.detection.mechanisms import switch_off


class RunHook:
    """Attaches Tocsin's hooks to a training, as a script does in two lines, and closes them.

    Without ``save_interval`` the hook's default holds.
    """

    def __init__(self, folder: Path, save_interval: int | None = None) -> None:
        self.folder = folder
        self.options = {} if save_interval is None else {"save_interval": save_interval}
        self._closing: list[Callable[[], None]] = []

    def torch(self, model: Any, **options: Any) -> Any:
        from tocsin_hooks.torch import TorchHook

        switch_off()
        hook = TorchHook.attach(model, self.folder, **self.options, **options)
        self._closing.append(hook.close)
        return hook

    def lightning(self) -> Any:
        from tocsin_hooks.lightning import TocsinCallback

        switch_off()
        return TocsinCallback(self.folder, **self.options)

    def huggingface(self) -> Any:
        from tocsin_hooks.huggingface import TocsinCallback

        switch_off()
        return TocsinCallback(self.folder, **self.options)

    def keras(self) -> Any:
        from tocsin_hooks.keras import TocsinCallback

        return TocsinCallback(self.folder, **self.options)

    def xgboost(self, **options: Any) -> Any:
        from tocsin_hooks.xgboost import TocsinCallback

        return TocsinCallback(self.folder, **self.options, **options)

    def close(self) -> None:
        while self._closing:
            self._closing.pop()()
