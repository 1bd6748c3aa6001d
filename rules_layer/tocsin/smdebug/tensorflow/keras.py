"""The hook for Keras, under smdebug's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import keras
from tocsin_hooks.keras import TocsinCallback

from tocsin.model import Mode
from tocsin.smdebug.core.hook import BaseHook
from tocsin.smdebug.core.singleton_utils import set_hook
from tocsin.smdebug.tensorflow.collection import Collection

__all__ = ["KerasHook"]


def _passed_on(name: str) -> Callable[..., None]:
    def called(self: KerasHook, *arguments: Any, **options: Any) -> None:
        getattr(self.callback, name)(*arguments, **options)

    return called


class KerasHook(BaseHook, keras.callbacks.Callback):  # type: ignore[misc]  # Keras' is Any
    """A callback of ``fit``, ``evaluate`` and ``predict``.

    See ``BaseHook`` for the arguments and ``tocsin_hooks.keras.TocsinCallback`` for what is
    captured, under which names. The modes of steps are those of Keras.

    Example
    -------
    >>> hook = KerasHook.create_from_json_file()
    >>> model.fit(x, y, callbacks=[hook])
    """

    default_collections: ClassVar[tuple[str, ...]] = ("metrics", "losses", "sm_metrics")
    async_safe = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        keras.callbacks.Callback.__init__(self)
        self._callback: TocsinCallback | None = None
        set_hook(self)

    @property
    def callback(self) -> TocsinCallback:
        """The callback underneath. From now on the configuration stands."""
        if self._callback is None:
            self._callback = TocsinCallback(self.hook)
        return self._callback

    def get_collection(self, name: str, create: bool = True) -> Collection:
        """Return a collection, a new one if there is none yet."""
        if name not in self._collections:
            self._collections[name] = Collection(name)
        found = super().get_collection(name, create)
        return found if isinstance(found, Collection) else Collection(name)

    def set_mode(self, mode: Mode) -> None:
        """Have no effect: Keras says whether it trains, evaluates or predicts."""
        self.mode = None

    def wrap_optimizer(self, optimizer: Any) -> Any:
        """Return the optimizer as it is: gradients are captured without this, where they can be."""
        return optimizer

    def wrap_tape(self, tape: Any) -> NoReturn:
        """Raise NotImplementedError, which says how a loop with a tape is captured."""
        raise NotImplementedError(
            "wrap_tape is not part of tocsin.smdebug: save from the loop by tocsin_hooks.Hook: "
            "docs/hooks/loop.md"
        )

    def close(self) -> None:
        """Write what is waiting, and the end of the run."""
        if self._callback is not None:
            self._callback.close()
        super().close()

    set_model = _passed_on("set_model")
    on_train_begin = _passed_on("on_train_begin")
    on_train_batch_begin = _passed_on("on_train_batch_begin")
    on_train_batch_end = _passed_on("on_train_batch_end")
    on_epoch_end = _passed_on("on_epoch_end")
    on_train_end = _passed_on("on_train_end")
    on_test_begin = _passed_on("on_test_begin")
    on_test_end = _passed_on("on_test_end")
    on_predict_batch_begin = _passed_on("on_predict_batch_begin")
    on_predict_batch_end = _passed_on("on_predict_batch_end")
    on_predict_end = _passed_on("on_predict_end")
