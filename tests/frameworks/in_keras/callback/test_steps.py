"""What is captured is what was computed."""

from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest
from tocsin import modes
from tocsin.tensors import LocalStorage, read_index
from tocsin.watch import Capture, CollectionConfig

BATCH = {
    "inputs": "input",
    "labels": "label",
    "predictions": "prediction",
    "loss/skill": "skill",
    "samples": "sample",
}
TORCH = keras.backend.backend() == "torch"
WEIGHTS = [
    "hidden/weights/hidden/kernel:0",
    "hidden/weights/hidden/bias:0",
    "out/weights/out/kernel:0",
    "out/weights/out/bias:0",
]


def batches(*arrays, size=12):
    """An epoch as ``fit`` goes through it unshuffled; the last batch is smaller."""
    for first in range(0, len(arrays[0]), size):
        yield tuple(array[first : first + size] for array in arrays)


def by_hand(model, epochs, *arrays):
    """Loss, accuracy and weights after each batch, of the same training one batch at a time."""
    found = []
    for _ in range(epochs):
        for batch in batches(*arrays):
            logs = model.train_on_batch(*batch, return_dict=True)
            found.append((logs["loss"], logs.get("accuracy"), model.get_weights()))
    return found


@pytest.mark.parametrize("interval", [1, 3])
def test_each_saved_batch_has_its_own_loss_and_the_weights_after_it(
    make, callback, data, series, interval
):
    make().fit(
        *data,
        batch_size=12,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=[callback(save_interval=interval)],
    )
    expected = by_hand(make(), 2, *data)
    losses, accuracies = series("loss"), series("accuracy")
    assert list(losses) == list(accuracies) == list(range(0, 10, interval))
    weights = [series(name) for name in WEIGHTS]
    for step in losses:
        loss, accuracy, now = expected[step]
        assert losses[step] == pytest.approx(loss, rel=1e-5)
        assert accuracies[step] == pytest.approx(accuracy, rel=1e-5)
        for captured, value in zip(weights, now, strict=True):
            np.testing.assert_allclose(captured[step], value, atol=1e-6)
    for captured in weights:  # they really move, with JAX too
        assert not np.array_equal(captured[0], captured[max(captured)])


def test_the_callback_changes_nothing(make, callback, data):
    watched, alone = make(), make()
    fit = {"batch_size": 12, "epochs": 2, "shuffle": False, "verbose": 0}
    history = watched.fit(*data, callbacks=[callback(save_interval=2)], **fit).history
    assert history == alone.fit(*data, **fit).history
    for one, other in zip(watched.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_roles_and_collections_are_told(make, callback, data, tmp_path, trial):
    make().fit(*data, batch_size=25, verbose=0, callbacks=[callback()])
    storage = LocalStorage(tmp_path / "run")
    index = read_index(storage, next(iter(storage.list("index/"))))
    roles = {entry.name: entry.role for entry in index.entries}
    gradients = {f"gradient/{name}": "gradient" for name in WEIGHTS if TORCH}
    assert roles == {
        "loss": "loss",
        "accuracy": "metric",
        "learning_rate": "learning_rate",
        **{name: "bias" if "bias" in name else "weight" for name in WEIGHTS},
        **gradients,
        **BATCH,
    }
    assert sorted(trial().tensor_names(collection="biases")) == sorted(WEIGHTS[1::2])


def test_what_a_batch_holds(make, callback, data, series):
    """Of an evaluation the first batch. Nothing of it stays at the model."""
    x, y = data
    model = make()
    capture = Capture(
        collections={
            name: CollectionConfig(save_raw_tensor=True)
            for name in ("inputs", "labels", "predictions")
        }
    )
    model.fit(
        x,
        y,
        batch_size=10,
        shuffle=False,
        verbose=0,
        validation_data=(x[:20] + 1, y[:20]),
        callbacks=[callback(capture=capture)],
    )
    inputs, labels, predictions = (series(name) for name in ("inputs", "labels", "predictions"))
    for step in range(5):
        rows = slice(10 * step, 10 * step + 10)
        np.testing.assert_allclose(inputs[step], x[rows])
        np.testing.assert_array_equal(labels[step], y[rows])
        assert predictions[step].shape == (10, 3)
    assert list(inputs) == list(range(5))
    (evaluated,) = series("inputs", modes.EVAL).values()
    np.testing.assert_allclose(evaluated[:10], x[:10] + 1)
    assert not {"compute_loss", "compute_metrics"} & {*vars(model)}


@pytest.mark.parametrize("name", ["compute_loss", "compute_metrics"])
def test_what_the_script_computes_in_a_step_stays(make, callback, data, trial, name):
    model = make()
    calls, method = [], getattr(model, name)

    def own(*args, **kwargs):
        calls.append(name)
        return method(*args, **kwargs)

    vars(model)[name] = own
    model.fit(*data, batch_size=25, verbose=0, callbacks=[callback()])
    assert vars(model)[name] is own
    assert calls
    assert trial().tensor("inputs").steps(modes.TRAIN) == [0, 1]


@pytest.mark.skipif(not TORCH, reason="others compile gradients away")
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_gradients_are_those_of_the_batch(make, callback, data, series, policy):
    """By plain gradient descent they are the way that the weights went, by the rate."""
    keras.config.set_dtype_policy(policy)
    try:
        before, model = make("sgd").get_weights(), make("sgd")
        model.fit(*data, batch_size=50, epochs=2, verbose=0, callbacks=[callback()])
    finally:
        keras.config.set_dtype_policy("float32")
    for name, start in zip(WEIGHTS, before, strict=True):
        gradient, after = series(f"gradient/{name}"), series(name)
        np.testing.assert_allclose((start - after[0]) / 0.01, gradient[0], atol=2e-4)
        np.testing.assert_allclose((after[0] - after[1]) / 0.01, gradient[1], atol=2e-4)


@pytest.mark.skipif(TORCH, reason="has gradients")
def test_that_gradients_are_hidden_is_said_once(make, callback, data, caplog):
    made, model = callback(), make()
    for _ in range(2):
        model.fit(*data, batch_size=25, verbose=0, callbacks=[made])
    said = [each.message for each in caplog.records if each.message.startswith("no gradients")]
    assert len(said) == 1
    assert keras.backend.backend() in said[0]


def test_an_evaluation_is_one_step_with_what_keras_says_of_it(make, callback, data, series):
    made, model = callback(save_interval=4), make()
    fit = {"batch_size": 12, "epochs": 3, "verbose": 0, "validation_data": data}
    history = model.fit(*data, callbacks=[made], **fit).history
    for name in ("val_loss", "val_accuracy"):
        assert list(series(name, modes.EVAL).values()) == pytest.approx(history[name], rel=1e-6)
    alone = model.evaluate(*data, verbose=0, return_dict=True, callbacks=[made])
    assert series("loss", modes.EVAL) == {3: pytest.approx(alone["loss"], rel=1e-6)}


def test_predictions(make, callback, data, series):
    made, model = callback(capture=predictions("predictions")), make()
    outputs = model.predict(data[0], batch_size=20, verbose=0, callbacks=[made])
    saved = series("predictions", modes.PREDICT)
    np.testing.assert_array_equal(np.concatenate(list(saved.values())), outputs)


def predictions(*names):
    return Capture(collections={name: CollectionConfig(save_raw_tensor=True) for name in names})


def test_several_inputs_and_outputs(callback, data, series, trial):
    keras.utils.set_random_seed(0)
    left, right = keras.Input((8,), name="left"), keras.Input((8,), name="right")
    shared = keras.layers.Dense(4, name="shared")
    both = keras.layers.Concatenate()([shared(left), shared(right)])
    model = keras.Model(
        [left, right],
        {"a": keras.layers.Dense(1, name="a")(both), "b": keras.layers.Dense(2, name="b")(both)},
    )
    model.compile("sgd", {"a": "mse", "b": "mae"}, metrics={"a": ["mae"], "b": ["mse"]})
    x, n = data[0], len(data[0])
    inputs, outputs = {"left": x, "right": x + 1}, {"a": np.ones((n, 1)), "b": np.ones((n, 2))}
    start = model.evaluate(
        *({key: value[25:] for key, value in each.items()} for each in (inputs, outputs)),
        verbose=0,
        return_dict=True,
    )
    model.optimizer.learning_rate = 0.0  # so that every batch meets the same weights
    made = callback(capture=predictions("predictions", "weights"))
    model.fit(inputs, outputs, batch_size=25, shuffle=False, verbose=0, callbacks=[made])
    for name, value in start.items():  # of the second batch, not of both
        assert series(name)[1] == pytest.approx(value, rel=1e-4), name
    weights = trial().tensor_names(collection="weights")
    assert sorted(weights) == [f"{each}/weights/{each}/kernel:0" for each in ("a", "b", "shared")]
    predicted = model.predict(inputs, batch_size=50, verbose=0, callbacks=[made])
    for name in ("a", "b"):
        saved = series(f"predictions/{name}", modes.PREDICT)[0]
        np.testing.assert_array_equal(saved, np.squeeze(predicted[name]))


class Bare(keras.Model):
    """A train step of its own that returns numbers which no metric keeps."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)
        self.scale = self.add_weight(shape=(1,), name="scale", initializer="ones")

    def call(self, x):
        return self.dense(x) * self.scale

    def train_step(self, *args):
        if keras.backend.backend() == "jax":
            logs, state = super().train_step(*args)
            return {"loss": logs["loss"] * 0 + state[0][0].sum()}, state
        super().train_step(*args)
        return {"loss": keras.ops.sum(self.trainable_variables[0])}


def test_a_train_step_of_ones_own(callback, data, series):
    keras.utils.set_random_seed(0)
    model = Bare()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*data, batch_size=12, verbose=0, callbacks=[callback()])
    losses, (first, *_) = series("loss"), model.trainable_variables
    weights = [f"{path}:0" for path in ("bare/weights/bare/scale", "dense/weights/dense/kernel")]
    of = (
        weights[0]
        if first.path.endswith("scale")
        else weights[1].replace("dense/", f"{model.dense.name}/")
    )
    assert len(losses) == 5
    for step, value in series(of).items():
        assert losses[step] == pytest.approx(value.sum(), rel=1e-4)


def test_what_is_no_mean_is_captured_as_keras_logs_it(make, callback, data, series):
    seen = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: seen.append(logs))
    x, y = data
    model = make(metrics=["accuracy"])
    model.compile(
        "sgd", "mse", metrics=["mae", keras.metrics.RootMeanSquaredError(), keras.metrics.AUC()]
    )
    y = keras.utils.to_categorical(y, 3)
    model.fit(x, y, batch_size=12, verbose=0, shuffle=False, callbacks=[callback(), note])
    for name in ("auc", "root_mean_squared_error"):
        running = [logs[name] for logs in seen]
        assert list(series(name).values()) == pytest.approx(running, rel=1e-6)
    totals = np.cumsum(
        [size * each for size, each in zip([12] * 4 + [2], series("mae").values(), strict=True)]
    )
    assert totals / [12, 24, 36, 48, 50] == pytest.approx([each["mae"] for each in seen], rel=1e-5)


def test_weights_of_classes_count(make, callback, data, series):
    weights = {0: 5.0, 1: 0.5, 2: 1.0}
    fit = {"batch_size": 12, "shuffle": False, "verbose": 0}
    make().fit(*data, class_weight=weights, callbacks=[callback()], **fit)
    scale = np.array([weights[label] for label in data[1]], np.float32)
    expected = [loss for loss, _, _ in by_hand(make(), 1, *data, scale)]
    assert list(series("loss").values()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.skipif(TORCH, reason="knows one step per execution")
def test_several_batches_at_once_are_one_step(make, callback, data, series):
    made = callback()
    make(steps_per_execution=2).fit(
        *data, batch_size=12, shuffle=False, verbose=0, callbacks=[made]
    )
    losses = [loss for loss, _, _ in by_hand(make(), 1, *data)]
    pairs = [np.mean(losses[:2]), np.mean(losses[2:4]), losses[4]]
    assert list(series("loss").values()) == pytest.approx(pairs, rel=1e-5)
    assert made.hook.position["TRAIN"] == 3


def test_accumulated_gradients(make, callback, data, series):
    sgd = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    make(sgd).fit(*data, batch_size=12, shuffle=False, verbose=0, callbacks=[callback()])
    weights = list(series(WEIGHTS[0]).values())
    moved = [not np.array_equal(one, other) for one, other in itertools.pairwise(weights)]
    assert moved == [True, False, True, False]


def test_the_learning_rate_is_the_one_that_the_batch_was_trained_with(make, callback, data, series):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    make(keras.optimizers.SGD(schedule)).fit(
        *data, batch_size=12, verbose=0, callbacks=[callback()]
    )
    assert list(series("learning_rate").values()) == pytest.approx([0.1 * 0.5**i for i in range(5)])


def test_variables_of_the_optimizer_only_if_asked_for(make, callback, data, tmp_path, trial):
    asked = Capture(collections={"optimizer_variables": CollectionConfig()})
    make().fit(*data, batch_size=50, verbose=0, callbacks=[callback(capture=asked)])
    names = trial().tensor_names(collection="optimizer_variables")
    assert "optimizer/iteration:0" in names
    assert sum("velocity" in name for name in names) == 4


def test_a_loss_that_is_not_finite(make, callback, data, series):
    weights = np.ones(len(data[0]), np.float32)
    weights[13] = np.nan  # TensorFlow's ReLU makes a NaN of an input a 0 at times
    make().fit(
        *data,
        batch_size=12,
        shuffle=False,
        verbose=0,
        sample_weight=weights,
        callbacks=[callback()],
    )
    assert np.isfinite(list(series("loss").values())).tolist() == [True] + [False] * 4


def test_half_precision_of_all_variables(callback, data, series):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3, name="d", dtype="bfloat16")])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*data, batch_size=50, verbose=0, callbacks=[callback()])
    value = keras.ops.convert_to_numpy(keras.ops.cast(model.trainable_variables[0], "float32"))
    np.testing.assert_array_equal(series("d/weights/d/kernel:0")[0], value)


def test_a_loss_that_a_function_computes(make, callback, data, series):
    """Its name is the same, and so is its value."""

    def squared(labels, scores):
        wanted = keras.ops.one_hot(keras.ops.cast(labels[:, 0], "int32"), 3)
        return keras.ops.mean(keras.ops.square(wanted - scores), axis=-1)

    def compiled():
        model = make()
        model.compile("adam", squared, metrics=["accuracy"])
        return model

    labels = data[1][:, None]
    compiled().fit(data[0], labels, batch_size=12, shuffle=False, verbose=0, callbacks=[callback()])
    expected = [loss for loss, _, _ in by_hand(compiled(), 1, data[0], labels)]
    assert [*series("loss").values()] == pytest.approx(expected, rel=1e-5)
