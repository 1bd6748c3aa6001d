"""The callback: steps, and the tensors of a model in them."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import keras
from tocsin.model import Mode, Role
from tocsin.tensors import Storage

from tocsin_hooks import Hook
from tocsin_hooks.guard import guarded
from tocsin_hooks.keras.batches import BatchWatch
from tocsin_hooks.keras.checkpoints import SavedModels
from tocsin_hooks.keras.contracts import (
    broken_by_callbacks,
    broken_by_model,
    callbacks_beside,
    save_contracts,
)
from tocsin_hooks.keras.frozen import FrozenBody
from tocsin_hooks.keras.means import Sum, running_means, since, sums
from tocsin_hooks.keras.parameters import KerasParameter, parameters
from tocsin_hooks.keras.steps import Interval, Steps, batch_watch, intervals, steps_of
from tocsin_hooks.keras.tensors import (
    HAS_GRADIENTS,
    gradient_name,
    save_gradients,
    save_optimizer,
    save_parameters,
    save_predictions,
    save_scalars,
)
from tocsin_hooks.keras.values import learning_rate_of, loss_scale_of

_log = logging.getLogger("tocsin")
_OF_ONE_START = frozenset({"run_id", "resumed_from"})  # options that another start has not
_MOST_WAIT = 5.0  # seconds for the logs of a batch that has been computed

Logs = Mapping[str, Any]


@dataclass
class _Batch:
    """The current batch, if it is saved: its first ``number``, and how things were before it.

    Its logs may come from a thread of Keras', after the next batch was begun.
    """

    mode: Mode
    number: int
    before: Mapping[str, Sum] = field(default_factory=dict)
    learning_rate: float | None = None
    loss_scale: float = 1.0
    logs: Logs | None = None
    arrived: threading.Event = field(default_factory=threading.Event)


_guarded = guarded(attrgetter("hook.trouble"), "%s of Keras is not captured")


class TocsinCallback(keras.callbacks.Callback):
    """Captures a Keras model in ``fit``, ``evaluate`` and ``predict``, and stops a training.

    A batch of ``fit`` is a step of mode TRAIN. With ``steps_per_execution=N``, a step is N batches,
    because Keras calls back only once. A whole evaluation is a step of mode EVAL, and a batch of
    ``predict`` a step of mode PREDICT.

    Saved training steps have the loss and metrics of the batch, its inputs, labels and predictions,
    the learning rate, the weights and biases after the batch and, with the torch backend, the
    gradients. An evaluation has its losses and metrics, named ``val_…`` within ``fit``, and the
    inputs, labels and predictions of its first batch. With JAX and TensorFlow, the callback does
    not see batches with several steps per execution, several devices, large samples, or a custom
    ``train_step``.

    After a stop request, ``fit`` ends after the current batch.

    Parameters
    ----------
    out: the run: a folder, ``s3://bucket/prefix``, a Storage, or an existing Hook, which stays
        open. None: the path in SageMaker's configuration, else ``TOCSIN_RUN``.
    watch, save_interval: as in Hook. Every evaluation is saved, unless ``save_interval`` has an
        interval for EVAL.
    close_at_end: whether the run ends with ``fit`` (or with an ``evaluate`` or ``predict`` outside
        of it); another call continues the run. False: the run ends with ``close``.
    options: the other options of Hook.

    Example
    -------
    >>> model.fit(x, y, epochs=5, callbacks=[TocsinCallback("s3://bucket/jobs/j1")])
    """

    async_safe = True  # Keras need not wait for a batch to hand over its logs

    def __init__(
        self,
        out: str | Path | Storage | Hook | None = None,
        watch: Any = None,
        save_interval: Interval | None = None,
        *,
        close_at_end: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self._reopen: Callable[..., Hook] | None = None
        if isinstance(out, Hook):
            self.hook = out
        else:
            again = {key: value for key, value in options.items() if key not in _OF_ONE_START}
            interval = intervals(save_interval)
            self._reopen = functools.partial(Hook, out, watch, interval, **again)
            self.hook = Hook(out, watch, interval, **options)
        self._close_at_end = close_at_end
        self._closed = False
        self._fitting = False
        self._batch: _Batch | None = None
        self._parameters: list[KerasParameter] | None = None
        self._means: dict[str, Any] | None = None
        self._said = self._checked = False
        self._frozen = FrozenBody()
        self._saved_models: SavedModels | None = None

    @_guarded
    def close(self, *, finished: bool | None = None) -> None:
        """Write waiting steps and the end of the run. A Hook passed as an argument stays open."""
        if self._batch is not None and not self._batch.arrived.is_set():
            self._batch = None  # an error has cut it short
        try:
            self._finish()
            self._frozen.end()
        finally:
            if self._reopen is not None:
                self._closed = True
                self.hook.close(finished=finished)

    # What Keras calls.

    @_guarded
    def set_model(self, model: Any) -> None:
        """Keras begins something with a model: an unfinished batch was cut short by an error."""
        super().set_model(model)
        self._fitting = False
        self._batch = None
        self._batches.prepare(model, self.hook.trouble)
        self._parameters = self._means = None
        if self._closed and self._reopen is not None:
            self.hook = self._reopen(resumed_from=self.hook.position)
            self.__dict__.pop("_steps", None)
            self._closed = False

    @_guarded
    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._fitting = True
        self._frozen.begins()
        self._watch_batches()
        self._saved_models = SavedModels(callbacks_beside())

    @_guarded
    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self._finish()
        if self.hook.should_stop:
            self.model.stop_training = True
        self._note_saved_models(batch)
        if self._steps.begin(Mode.TRAIN):
            self._batch = self._begun(batch)

    @_guarded
    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._arrived(batch, logs)

    @_guarded
    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._finish()

    @_guarded
    def on_train_end(self, logs: Logs | None = None) -> None:
        try:
            self._end()
        finally:
            self._batches.end()

    @_guarded
    def on_test_begin(self, logs: Logs | None = None) -> None:
        self._finish()  # before Keras resets its metrics for the evaluation
        self._watch_batches()
        self._steps.begin(Mode.EVAL)

    @_guarded
    def on_test_end(self, logs: Logs | None = None) -> None:
        if self.hook.saving:
            save_scalars(self.hook, logs or {}, "val_" if self._fitting else "")
        self._steps.end()
        if not self._fitting:
            self._batches.end()
            self._end()

    @_guarded
    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self._finish()
        if self._steps.begin(Mode.PREDICT):
            self._batch = _Batch(Mode.PREDICT, batch)

    @_guarded
    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._arrived(batch, logs)

    @_guarded
    def on_predict_end(self, logs: Logs | None = None) -> None:
        try:
            self._end()
        finally:
            self._batches.end()

    @functools.cached_property
    def _steps(self) -> Steps:
        return steps_of(self.hook)

    @functools.cached_property
    def _batches(self) -> BatchWatch:
        return batch_watch()

    def _watch_batches(self) -> None:
        self._batches.begin(self.model, self.hook.trouble, self._steps.called)

    @_guarded
    def _note_saved_models(self, batch: int) -> None:
        """Note those that were saved since the batch before: callbacks save after this one."""
        saved = self._saved_models
        if saved is not None and (batch == 0 or saved.within_epochs):
            for path in saved.new():
                self.hook.checkpoint(path)

    # One batch, from its begin to the next one's.

    def _begun(self, number: int) -> _Batch:
        with self.hook.measured():
            model = self.model  # with JAX this brings the state of the last batch into the model
            if self._means is None:
                self._means = running_means(model)
        # A device may still be at work on the last batch: to wait for it is not the hook's time.
        optimizer = getattr(model, "optimizer", None)
        before = sums(self._means)
        rate, scale = learning_rate_of(optimizer), loss_scale_of(optimizer)
        return _Batch(Mode.TRAIN, number, before, rate, scale)

    def _arrived(self, number: int, logs: Logs | None) -> None:
        batch = self._batch
        if batch is not None and number >= batch.number:
            batch.logs = dict(logs or {})
            batch.arrived.set()

    def _finish(self) -> None:
        """Save the current batch, once it is through, and end its step."""
        batch = self._batch
        try:
            if batch is None:
                return
            if not batch.arrived.wait(_MOST_WAIT):
                raise TimeoutError(f"no logs of batch {batch.number} within {_MOST_WAIT:g} s")
            with self.hook.measured():
                if batch.mode is Mode.PREDICT:
                    save_predictions(self.hook, batch.logs or {})
                else:
                    self._save_batch(batch)
        finally:
            self._batch = None
            self._steps.end()

    def _end(self) -> None:
        try:
            self._finish()
            if self._fitting:
                self._frozen.ends(self.hook, self.model)
        finally:
            if self._close_at_end and not self._frozen.waits:
                self.close()

    def _save_batch(self, batch: _Batch) -> None:
        model = self.model
        if self._parameters is None:  # only now: the first batch may have built them
            self._parameters, self._means = parameters(model), running_means(model)
            self._say_what_is_hidden()
        if not self._checked:
            self._checked = True
            save_contracts(self.hook, [*broken_by_model(model), *broken_by_callbacks()])
        self._frozen.step(self.hook, model)
        now, logs = sums(self._means or {}), batch.logs or {}
        save_scalars(
            self.hook,
            {name: since(batch.before.get(name), now.get(name), logs[name]) for name in logs},
        )
        if batch.learning_rate is not None:
            self.hook.save(
                "learning_rate", batch.learning_rate, "learning_rates", role=Role.LEARNING_RATE
            )
        save_parameters(self.hook, self._parameters)
        save_optimizer(self.hook, getattr(model, "optimizer", None))
        if HAS_GRADIENTS:
            save_gradients(self.hook, self._parameters, batch.loss_scale)

    def _say_what_is_hidden(self) -> None:
        """Once: rules on gradients will have nothing to look at."""
        first = next(iter(self._parameters or ()), None)
        if self._said or HAS_GRADIENTS or first is None:
            return
        self._said = True
        if self.hook.wants(gradient_name(first), "gradients", role=Role.GRADIENT):
            _log.warning(
                "no gradients: with the %s backend they never leave Keras' train step. "
                "Rules on gradients are not applicable in this run",
                keras.backend.backend(),
            )
