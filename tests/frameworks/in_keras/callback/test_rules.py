"""Trainings that go wrong are told from one that does not, by the recommended rules."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.tensors import open_storage

HAS_GRADIENTS = keras.backend.backend() == "torch"


def train(run, callback, *, rate=0.3, bias=0.0, scale=1 / 16, epochs=10):
    keras.utils.set_random_seed(0)
    images, labels = load_digits(return_X_y=True)
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(32, "relu", bias_initializer=keras.initializers.Constant(bias)),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(rate), loss, metrics=["accuracy"])
    images = (images * scale).astype(np.float32)
    model.fit(
        images[:1400],
        labels[:1400],
        batch_size=56,
        epochs=epochs,
        validation_data=(images[1400:], labels[1400:]),
        verbose=0,
        callbacks=[callback(run, save_interval=5, capture=None)],
    )
    rules = check(open_storage(run))[0].rules
    return {name: record.status for name, record in rules.items()}


def fired(statuses):
    return {name for name, status in statuses.items() if status is RuleStatus.ISSUES_FOUND}


def test_a_healthy_training_is_left_alone(tmp_path, callback):
    statuses = train(tmp_path / "run", callback)
    assert fired(statuses) == set()
    assert RuleStatus.ERROR not in statuses.values()
    judged = {"LossNotDecreasing", "Overfit", "ExplodingTensor"}
    assert {statuses[name] for name in judged} == {RuleStatus.NO_ISSUES_FOUND}


def test_rules_on_gradients_are_healthy_only_where_there_are_gradients(tmp_path, callback):
    statuses = train(tmp_path / "run", callback, epochs=1)
    for name in ("VanishingGradient", "GradientExplosion"):
        assert (statuses[name] is RuleStatus.NOT_APPLICABLE) is not HAS_GRADIENTS


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"rate": 300.0}, {"LossDiverging"}),
        ({"bias": -50.0, "epochs": 12}, {"LossNotDecreasing"}),
        ({"scale": 1e30}, {"ExplodingTensor"}),
    ],
    ids=["rate", "dead", "unscaled"],
)
def test_a_fault_is_found(tmp_path, callback, fault, expected):
    assert fired(train(tmp_path / "run", callback, **fault)) >= expected
