"""The training loop: one for all models that gradients train, in numpy and PyTorch alike."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
from tocsin_hooks import Hook, modes

from benchmarks.detection.training.data import Array
from benchmarks.detection.training.network import layer_of, layers
from benchmarks.detection.training.optimizer import clip, rate
from benchmarks.detection.training.outcome import Outcome, finite
from benchmarks.detection.training.recorder import Recorder
from benchmarks.detection.training.samples import Data, prepare
from benchmarks.detection.training.setup import Setup
from benchmarks.detection.training.worker import Worker, make_worker


def train(setup: Setup, folder: Path) -> Outcome:
    """Train, and write the run into ``folder``."""
    started = perf_counter()
    data = prepare(setup)
    workers = [make_worker(setup, data, rank) for rank in range(setup.workers)]
    for _ in range(setup.pretraining):
        _advance(setup, workers, setup.learning_rate)
    frozen = _freeze(setup, workers)
    recorders = [Recorder(_hook(setup, folder, rank)) for rank in range(setup.workers)]
    evaluations: list[float] = []
    for step in range(setup.steps):
        now = rate(setup, step)
        _advance(setup, workers, now)
        for worker, recorder in zip(workers, recorders, strict=True):
            _record_training(worker, recorder, now, frozen)
        if step % (setup.save_interval * setup.eval_saves) == 0 or step == setup.steps - 1:
            losses = [
                _record_evaluation(worker, recorder, data)
                for worker, recorder in zip(workers, recorders, strict=True)
            ]
            evaluations.append(losses[0])
    for recorder in reversed(recorders):  # the first worker says that it is the end
        recorder.close()
    return _outcome(workers, recorders, data, evaluations, perf_counter() - started)


def _hook(setup: Setup, folder: Path, rank: int) -> Hook:
    interval = {modes.TRAIN: setup.save_interval, modes.EVAL: 1}
    worker = f"worker_{rank}"
    return Hook(
        folder,
        save_interval=interval,
        worker=worker,
        num_workers=setup.workers,
        run_id=setup.name,
        max_overhead=None,  # what is captured is the same on a slow machine
    )


def _freeze(setup: Setup, workers: list[Worker]) -> frozenset[str]:
    """The parameters of the layers that are to stay as they are."""
    fixed = layers(workers[0].network)[: setup.frozen]
    frozen = frozenset(n for n in workers[0].network.parameters if layer_of(n) in fixed)
    for worker in workers:
        worker.updated -= frozen
    return frozen


def _advance(setup: Setup, workers: list[Worker], now: float) -> None:
    """One step of all workers, which apply the mean of their gradients."""
    found = [worker.compute() for worker in workers]
    alone = setup.effects.workers == "own gradients"
    for worker, own in zip(workers, found, strict=True):
        gradients = own if alone or len(found) == 1 else _mean(found)
        worker.update(clip(gradients, setup.clip) if setup.clip else gradients, now)


def _mean(found: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.mean([one[name] for one in found], axis=0) for name in found[0]}


def _record_training(
    worker: Worker, recorder: Recorder, now: float, frozen: frozenset[str]
) -> None:
    with recorder.hook.step(modes.TRAIN):
        if not recorder.hook.saving:
            return
        objective, batch = worker.objective, worker.batch
        metrics = _metrics(worker, objective.metric(worker.outputs, batch.y))
        recorder.numbers(worker.loss, metrics, now)
        recorder.batch(batch.x, batch.y, objective.predictions(worker.outputs))
        gradients = {name: g for name, g in worker.gradients.items() if name not in frozen}
        recorder.model(worker.network.parameters, gradients, worker.network.activations)
    recorder.saved()


def _record_evaluation(worker: Worker, recorder: Recorder, data: Data) -> float:
    with recorder.hook.step(modes.EVAL):
        loss, metric, predictions = worker.evaluate(data.evaluation)
        recorder.numbers(loss, _metrics(worker, metric), None)
        recorder.batch(None, data.evaluation.y, predictions)
    recorder.saved()
    return loss


def _metrics(worker: Worker, metric: float) -> dict[str, float]:
    return {} if worker.objective.task == "numbers" else {"accuracy": metric}


def _outcome(
    workers: list[Worker],
    recorders: list[Recorder],
    data: Data,
    evaluations: list[float],
    seconds: float,
) -> Outcome:
    ends = [worker.evaluate(data.truth)[:2] for worker in workers]
    loss, metric = min(ends, key=lambda end: (np.isfinite(end[1]), end[1]))
    train_loss, train_metric, _ = workers[0].evaluate(data.train.take(slice(1000)))
    return Outcome(
        finite(loss),
        finite(metric),
        finite(train_loss),
        finite(train_metric),
        tuple(map(finite, evaluations)),
        recorders[0].given,
        round(seconds, 3),
    )
