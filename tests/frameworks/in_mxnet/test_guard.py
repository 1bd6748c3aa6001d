"""No error of ours reaches a training of Gluon, wherever it is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from mxnet import autograd, gluon
from tocsin_hooks.mxnet import GluonHook

from tests.injection import harmful


def test_no_error_of_ours_reaches_a_training(network: Any, data: Any, tmp_path: Path) -> None:
    runs = itertools.count()

    def training() -> object:
        net, loss = network(), gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        out = tmp_path / str(next(runs))
        hook = GluonHook.attach(net, out, loss=loss, trainer=trainer, save_interval=1)
        inputs, labels = data
        for _ in range(2):
            with autograd.record():
                found = loss(net(inputs), labels)
            found.backward()
            trainer.step(64)
            hook.record_loss(found.mean(), "mean")
        net(inputs)
        hook.close()
        return [value.data().asnumpy().tolist() for value in net.collect_params().values()]

    making = ("rank_and_size", "GluonHook.__init__")  # there is no hook yet to guard these
    assert set(harmful(training, "mxnet/")) == {
        f"{each} raises into the training" for each in making
    }
