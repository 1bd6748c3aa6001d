"""The hook for MXNet, under smdebug's names."""

from __future__ import annotations

from typing import Any

from mxnet import gluon
from tocsin_hooks.mxnet import GluonHook

from tocsin.smdebug.core.hook import BaseHook
from tocsin.smdebug.core.singleton_utils import set_hook

__all__ = ["Hook"]


class Hook(BaseHook):
    """Captures the training of a Gluon network, in the names and steps of smdebug.

    See ``BaseHook`` for the arguments and ``tocsin_hooks.mxnet.GluonHook`` for what is captured.

    Example
    -------
    >>> hook = Hook.create_from_json_file()
    >>> hook.register_block(net)
    >>> hook.register_block(loss)
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._losses: list[Any] = []
        self._gluon: GluonHook | None = None
        self._waiting: Any = None  # for the network's first forward pass
        set_hook(self)

    def register_block(self, block: Any) -> None:
        """Capture a network, or a loss, from its next forward pass on. Raises TypeError."""
        if not isinstance(block, gluon.Block):
            raise TypeError(f"{type(block).__name__} is not a gluon.Block")
        if isinstance(block, gluon.loss.Loss):
            self._losses.append(block)
        else:
            self._waiting = block.register_forward_pre_hook(self._attach)

    register_hook = register_block

    def close(self) -> None:
        """Write what is waiting, and the end of the run."""
        if self._gluon is not None:
            self._gluon.detach()
        super().close()

    def _attach(self, block: Any, inputs: Any) -> None:
        """The first forward pass begins: the configuration is complete."""
        self._waiting.detach()
        self._gluon = GluonHook.attach(block, self.hook, loss=self._losses)
        self._gluon.evaluates_parameters = True
        self._gluon.begin_step(inputs)
