"""The hook for XGBoost, under smdebug's names."""

from __future__ import annotations

from typing import Any, ClassVar

import xgboost as xgb
from tocsin_hooks.xgboost import TocsinCallback

from tocsin.smdebug.core.hook import BaseHook
from tocsin.smdebug.core.singleton_utils import set_hook

__all__ = ["Hook", "XGBoostBaseHook"]


class Hook(BaseHook, xgb.callback.TrainingCallback):  # type: ignore[misc]  # XGBoost's is Any
    """A callback of ``xgb.train``, in the names and steps of smdebug.

    hyperparameters: have no effect: those of the booster are saved.
    train_data, validation_data: DMatrix, (X, y), or a file and its type, ``csv`` or ``libsvm``.
        SHAP values are of the training data, ``predictions`` and ``labels`` of the validation data.

    See ``BaseHook`` for the other arguments, and ``tocsin_hooks.xgboost.TocsinCallback`` for what
    is captured.
    """

    default_collections: ClassVar[tuple[str, ...]] = ("metrics",)
    default_interval: ClassVar[int] = 10

    def __init__(
        self,
        *arguments: Any,
        hyperparameters: Any = None,
        train_data: Any = None,
        validation_data: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._data = {"train": _data(train_data), "validation": _data(validation_data)}
        self._callback: TocsinCallback | None = None
        set_hook(self)

    def before_training(self, model: Any) -> Any:
        """XGBoost begins a training: the configuration is complete."""
        self._callback = TocsinCallback(self.hook, **self._data)
        return self._callback.before_training(model)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """XGBoost has ended a round; returns whether somebody asked for a stop."""
        stops = self._callback is not None and self._callback.after_iteration(
            model, epoch, evals_log
        )
        return bool(stops)

    def after_training(self, model: Any) -> Any:
        """XGBoost has ended the training."""
        if self._callback is not None:
            model = self._callback.after_training(model)
        self.close()
        return model


def _data(given: Any) -> Any:
    """A file of smdebug's form ``(path, type)`` as a DMatrix; anything else as it is."""
    if not (isinstance(given, tuple) and all(isinstance(each, str) for each in given)):
        return given
    path, kind = given
    label = "&label_column=0" if "csv" in kind else ""
    return xgb.DMatrix(f"{path}?format={'csv' if label else 'libsvm'}{label}")


XGBoostBaseHook = Hook
