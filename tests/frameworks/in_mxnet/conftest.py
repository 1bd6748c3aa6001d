"""Tiny networks and trainings. Skipped where MXNet is not installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.evaluation import check, document
from tocsin.tensors import open_storage
from tocsin.watch import to_watch

collect_ignore_glob = [] if find_spec("mxnet") else ["test_*.py"]


@pytest.fixture(autouse=True)
def _outside_sagemaker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAINING_JOB_NAME", "TOCSIN", "TOCSIN_RUN", "USE_SMDEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def data() -> tuple[Any, Any]:
    """64 samples of two classes that a line separates."""
    import mxnet as mx

    inputs = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    return mx.nd.array(inputs), mx.nd.array(inputs[:, 0] + inputs[:, 1] > 0)


@pytest.fixture
def network() -> Callable[..., Any]:
    """A network of these blocks, whose names begin with ``net_`` and count from 0."""
    import mxnet as mx

    def build(*blocks: Any, initializer: Any = None) -> Any:
        mx.random.seed(0)
        nn = mx.gluon.nn
        made = nn.HybridSequential(prefix="net_")
        with made.name_scope():
            made.add(*(make() for make in blocks or _usual(nn)))
        made.initialize(initializer or mx.init.Xavier())
        return made

    return build


def _usual(nn: Any) -> tuple[Callable[[], Any], ...]:
    return lambda: nn.Dense(16, activation="relu"), lambda: nn.Dense(2)


@pytest.fixture
def train(data: tuple[Any, Any], tmp_path: Path) -> Callable[..., Any]:
    """Train a network some steps, every one saved, and give the hook that has been closed."""
    from mxnet import autograd, gluon
    from tocsin_hooks.mxnet import GluonHook

    def run(
        net: Any,
        steps: int = 3,
        *,
        loss: Any = None,
        rate: float = 0.1,
        out: Any = None,
        batches: Any = None,
        after: Callable[[Any], None] = lambda hook: None,
        **options: Any,
    ) -> Any:
        loss = loss or gluon.loss.SoftmaxCrossEntropyLoss(prefix="softmaxcrossentropyloss0_")
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate})
        options = {"save_interval": 1, "max_overhead": 1} | options
        out = tmp_path / "run" if out is None else out
        hook = GluonHook.attach(net, out, loss=loss, trainer=trainer, **options)
        inputs, labels = batches or data
        for _ in range(steps):
            with autograd.record():
                value = loss(net(inputs), labels)
            value.backward()
            trainer.step(len(inputs))
            after(hook)
        hook.close()
        return hook

    return run


@pytest.fixture
def verdicts() -> Callable[..., dict[str, str]]:
    """The status of each rule over a run, by name; by default of the recommended ones."""

    def judge(run: Path, rules: list[Any] | None = None) -> dict[str, str]:
        watch = None if rules is None else to_watch({"rules": rules})
        checkpoint, report = check(open_storage(run), watch)
        assert not report.log
        found = document(checkpoint)["rules"]
        return {rule["RuleConfigurationName"]: rule["RuleEvaluationStatus"] for rule in found}

    return judge
