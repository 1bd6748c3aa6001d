"""The hook for Lightning: a callback of its Trainer."""

from __future__ import annotations

import inspect
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tocsin_hooks.best import takes_the_worst
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.contracts.schedules import counted_steps
from tocsin_hooks.torch.trainer import Out, TrainerCapture, from_trainer

if TYPE_CHECKING:
    Callback = Any
elif "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

_AGREED_EVERY = 16
"""Batches between two questions among several processes whether to stop: each is a message."""

_NOTHING = 20
"""Batches in a row of which ``training_step`` returned nothing. Some are left out on purpose."""


_EPOCHS = 2
"""Before which a schedule that is stepped by hand has been stepped."""

_FEW = 0.2
"""Epochs, of the steps that a schedule counts."""


class TocsinCallback(Callback):
    """Captures ``Trainer.fit``, and stops it on request.

    A step of mode TRAIN is a step of the optimizer: with ``accumulate_grad_batches`` it has
    several batches, whose losses are averaged. Its ``loss`` is the return value of
    ``training_step``; logged values (``self.log``) are saved with it. A validation is one step of
    mode EVAL with its logged values, and always saved. The sanity check is not captured.

    Parameters
    ----------
    out: the run: a folder, ``s3://bucket/prefix``, a Storage, or an existing Hook, which stays
        open. None: the path in SageMaker's configuration, else ``TOCSIN_RUN``.
    options: options of ``TorchHook.attach`` and Hook: ``watch``, ``save_interval``, ``loss`` …

    Example
    -------
    >>> trainer = Trainer(callbacks=[TocsinCallback("s3://bucket/jobs/j1")])
    """

    def __init__(self, out: Out = None, **options: Any) -> None:
        super().__init__()
        self._capture = TrainerCapture(out, options)
        self._logged: dict[str, Any] = {}
        self._without_loss = 0
        self._saved: frozenset[str] = frozenset()

    @from_trainer
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        several = trainer.world_size > 1
        shared = {"run_id": trainer.strategy.broadcast(uuid.uuid4().hex)} if several else {}
        self._logged, self._without_loss = {}, 0
        self._capture.open(
            trainer.strategy.model or pl_module,
            trainer.accumulate_grad_batches,
            losses_are_divided=True,
            compiled=getattr(pl_module, "_compiler_ctx", None) is not None,
            **shared,
        )
        if not several:  # with several, ``training_step`` itself looks like a call of the model
            self._capture.watch_calls(pl_module)
        if any(takes_the_worst(name, largest=mode == "max") for name, mode in _watched(trainer)):
            self._capture.breaks("monitor_mode_reversed", script_line())
        if _counts_updates(trainer) and pl_module.automatic_optimization:
            self._capture.breaks("scheduler_stepped_per_epoch", script_line())

    @from_trainer
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        schedules = [each.scheduler for each in trainer.lr_scheduler_configs]
        by_hand = trainer.current_epoch == _EPOCHS and not pl_module.automatic_optimization
        if by_hand and schedules and not any(getattr(each, "last_epoch", 1) for each in schedules):
            self._capture.breaks("scheduler_not_stepped", _place(pl_module.training_step))

    @from_trainer
    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self._note_checkpoints(trainer)
        self._capture.begin()

    def _note_checkpoints(self, trainer: Any) -> None:
        """Note those that were saved since the batch before: callbacks save after this one."""
        saved = _saved(trainer)
        for path in saved - self._saved:
            self._capture.checkpoint(path)
        self._saved = saved

    @from_trainer
    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        self._capture.end()

    @from_trainer
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._stops(trainer, batch_idx):  # first: all processes must get to this question
            trainer.should_stop = True
        lost = not isinstance(outputs, torch.Tensor) and not outputs
        lost = lost and pl_module.automatic_optimization
        self._without_loss = self._without_loss + 1 if lost else 0
        self._capture.end()
        if self._without_loss == _NOTHING:
            self._capture.breaks("training_step_returns_none", _place(pl_module.training_step))
        if self._capture.saving:
            self._save_loss(outputs, trainer.accumulate_grad_batches)
            self._capture.save_scalars(self._newly_logged(trainer))

    @from_trainer
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._logged = dict(trainer.callback_metrics)

    @from_trainer
    def on_validation_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx == dataloader_idx == 0:
            self._capture.begin()

    @from_trainer
    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._capture.evaluated()

    @from_trainer
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._capture.end_evaluation(self._newly_logged(trainer))

    @from_trainer
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._capture.close(finished=False)

    @from_trainer
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._capture.close()

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint: the steps so far."""
        return {"position": self._capture.position}

    @from_trainer
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """From the checkpoint: steps are counted on from there."""
        self._capture.position = state_dict.get("position")

    def _save_loss(self, outputs: Any, accumulate: int) -> None:
        """Save what ``training_step`` returned; Lightning divided it by the number of batches."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if isinstance(loss, torch.Tensor) and self._capture.torch is not None:
            self._capture.torch.record_loss(loss.detach() * accumulate)

    def _newly_logged(self, trainer: Any) -> dict[str, Any]:
        """Metrics logged since the last look: Lightning hands out old values, too."""
        before, self._logged = self._logged, dict(trainer.callback_metrics)
        return {key: each for key, each in self._logged.items() if each is not before.get(key)}

    def _stops(self, trainer: Any, batch_idx: int) -> bool:
        """Return whether to stop. Several processes all stop after the same batch."""
        stop = self._capture.should_stop
        if trainer.world_size == 1:
            return stop
        if batch_idx % _AGREED_EVERY:
            return False
        return bool(trainer.strategy.reduce_boolean_decision(stop, all=False))


def _saved(trainer: Any) -> frozenset[str]:
    """Return the paths of the checkpoints that callbacks have saved, as far as they say."""
    paths = (
        getattr(each, name, "")
        for each in trainer.checkpoint_callbacks
        for name in ("best_model_path", "last_model_path")
    )
    return frozenset(path for path in paths if path)


def _watched(trainer: Any) -> Iterator[tuple[str, str]]:
    """Return what callbacks and schedules watch, and whether the largest or the smallest is the
    best."""
    for each in trainer.callbacks:
        yield getattr(each, "monitor", None) or "", getattr(each, "mode", "min")
    for each in trainer.lr_scheduler_configs:
        yield each.monitor or "", getattr(each.scheduler, "mode", "min")


def _counts_updates(trainer: Any) -> bool:
    """Return whether a schedule that counts all updates is stepped once in each epoch, of which
    there are far fewer."""
    by_epoch = (each for each in trainer.lr_scheduler_configs if each.interval == "epoch")
    counted = max((counted_steps(each.scheduler) for each in by_epoch), default=0)
    if not counted:
        return False
    updates, epochs = trainer.estimated_stepping_batches, trainer.max_epochs or 0
    return 0 < epochs <= _FEW * counted and 0.9 * counted <= updates <= counted / 0.9


def _place(method: Any) -> str:
    """Return the file and line of a method, if they are known."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return (
        "training_step" if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    )
