"""The hook for Hugging Face transformers: a callback of its Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from tocsin_hooks.best import takes_the_worst
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.contracts.schedules import warm_up_steps
from tocsin_hooks.torch.trainer import Out, TrainerCapture, from_trainer

if TYPE_CHECKING:
    TrainerCallback = Any
else:
    from transformers import TrainerCallback

_AGREED_EVERY = 16
"""Steps between two questions among several processes whether to stop: each is a message."""

_EVALUATED = 7
"""Batches of an evaluation whose losses are compared; a Trainer's own may have few samples each."""

_NO_METRICS = ("_runtime", "_per_second", "_time")


class TocsinCallback(TrainerCallback):
    """Captures ``Trainer.train``, and stops it on request.

    Step n of mode TRAIN is the one after which the Trainer's ``global_step`` is n + 1. Its
    ``loss`` is the loss that the Trainer differentiates, over all micro-batches of the step. It may
    be NaN, which the Trainer's own log hides (``logging_nan_inf_filter``). An evaluation is one
    step of mode EVAL with its metrics, and always saved.

    Parameters
    ----------
    out: the run: a folder, ``s3://bucket/prefix``, a Storage, or an existing Hook, which stays
        open. None: the path in SageMaker's configuration, else ``TOCSIN_RUN``.
    options: options of ``TorchHook.attach`` and Hook: ``watch``, ``save_interval``, ``loss`` …

    Example
    -------
    >>> trainer = Trainer(model, arguments, callbacks=[TocsinCallback("s3://bucket/jobs/j1")])
    """

    def __init__(self, out: Out = None, **options: Any) -> None:
        self._capture = TrainerCapture(out, options)

    @from_trainer
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._capture.close(finished=False)
        if state.global_step and self._capture.position is None:
            self._capture.position = _position(state)
        self._capture.open(
            kwargs["model"],
            args.gradient_accumulation_steps,
            losses_add_up=True,
            evaluated_batches=_EVALUATED,
        )
        best, largest = args.metric_for_best_model, bool(args.greater_is_better)
        if args.load_best_model_at_end and best and takes_the_worst(best, largest=largest):
            self._capture.breaks("monitor_mode_reversed", script_line())
        if warm_up_steps(kwargs.get("lr_scheduler")) >= state.max_steps > 0:
            self._capture.breaks("warmup_not_finished", script_line())

    @from_trainer
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if _stops(self._capture.should_stop, state.global_step, args.device):
            control.should_training_stop = True

    @from_trainer
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._capture.checkpoint(f"{args.output_dir}/checkpoint-{state.global_step}")

    @from_trainer
    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._capture.evaluated()

    @from_trainer
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._capture.end_evaluation(_metrics(kwargs.get("metrics") or {}))

    @from_trainer
    def on_predict(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._capture.end_evaluation({})

    @from_trainer
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._capture.close(finished=None)


def _position(state: Any) -> Mapping[str, int]:
    """Return where the checkpoint was taken: its log has an entry for each evaluation before it."""
    evaluations = sum(
        any(key.startswith("eval_") and key.endswith("_runtime") for key in entry)
        for entry in state.log_history
    )
    steps = state.global_step
    return {"TRAIN": steps, "EVAL": evaluations, "GLOBAL": steps + evaluations}


def _metrics(found: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of the model, without those of how long the evaluation took."""
    numbers = {key: each for key, each in found.items() if isinstance(each, int | float)}
    return {
        key: each
        for key, each in numbers.items()
        if key != "epoch" and not key.endswith(_NO_METRICS)
    }


def _stops(asked: bool, step: int, device: Any) -> bool:
    """Return whether to stop. Several processes all stop after the same step."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return asked
    if step % _AGREED_EVERY:
        return False
    votes = torch.tensor(int(asked), device=device)
    distributed.all_reduce(votes, op=distributed.ReduceOp.MAX)
    return bool(votes.item())
