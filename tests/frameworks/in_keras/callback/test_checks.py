"""What the callback compares and checks besides what it saves."""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import losses
from tocsin import create_trial, modes
from tocsin.model import Role
from tocsin.tensors import LocalStorage, read_index

TORCH = keras.backend.backend() == "torch"
eager = pytest.mark.skipif(not TORCH, reason="how compiled steps compute a loss is not seen")
SPARSE = "sparse_categorical_crossentropy"


@pytest.fixture(scope="module")
def samples():
    """Inputs (640, 8), and scores of three classes that are linear in them."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((640, 8)).astype(np.float32)
    return x, (x @ draw.standard_normal((8, 3))).astype(np.float32)


@pytest.fixture
def contracts(tmp_path):
    """The broken contracts that a run holds, without their places."""

    def found():
        storage = LocalStorage(tmp_path / "run")
        indexes = (read_index(storage, key) for key in storage.list("index/"))
        entries = [each for index in indexes for each in index.entries]
        return {each.name.split("/")[1] for each in entries if each.role == Role.CONTRACT}

    return found


def model_of(units, activation, loss):
    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(16, "relu"), layers.Dense(units, activation)]
    )
    model.compile("adam", loss)
    return model


def mean_error_squared(y_true, y_pred):
    return keras.ops.square(keras.ops.mean(y_true - y_pred))


def each_with_each(y_true, y_pred):
    return keras.ops.mean(keras.ops.square(y_true[:, 0] - y_pred))


def labels_of(kind, scores):
    """Classes, shares of classes, whether it is the first class, or a number."""
    classes = scores.argmax(1)
    return {
        "classes": classes,
        "shares": np.eye(3, dtype=np.float32)[classes],
        "first": (classes == 0).astype(np.float32),
        "number": scores[:, 0],
    }[kind]


@pytest.mark.parametrize(
    ("units", "activation", "loss", "labels", "expected"),
    [
        (3, "softmax", SPARSE, "classes", set()),
        (3, None, losses.SparseCategoricalCrossentropy(from_logits=True), "classes", set()),
        (1, "sigmoid", "binary_crossentropy", "first", set()),
        (1, None, "mse", "number", set()),
        (1, None, losses.Huber(), "number", set()),
        (3, None, SPARSE, "classes", {"logits_as_probabilities"}),
        (3, "relu", "categorical_crossentropy", "shares", {"logits_as_probabilities"}),
        (
            3,
            "softmax",
            losses.SparseCategoricalCrossentropy(from_logits=True),
            "classes",
            {"probabilities_as_logits"},
        ),
        (
            1,
            "sigmoid",
            losses.BinaryCrossentropy(from_logits=True),
            "first",
            {"probabilities_as_logits"},
        ),
        (1, "softmax", "binary_crossentropy", "first", {"softmax_single_class"}),
    ],
)
def test_contracts_of_a_compiled_model(
    callback, samples, contracts, units, activation, loss, labels, expected
):
    x, scores = samples
    model = model_of(units, activation, loss)
    y = labels_of(labels, scores)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == expected


@pytest.mark.parametrize(
    ("share", "penalty", "last", "expected"),
    [
        (0.9, 0.0, False, {"dropout_too_large"}),
        (0.5, 0.3, False, {"weight_decay_too_large"}),
        (0.2, 0.0, True, {"dropout_on_output"}),
        (0.5, 0.01, False, set()),
    ],
)
def test_strong_regularisation(callback, samples, contracts, share, penalty, last, expected):
    x, scores = samples
    layers = keras.layers
    hidden = layers.Dense(16, "relu", kernel_regularizer=keras.regularizers.L2(penalty))
    rest = [layers.Dense(1), layers.Dropout(share)]
    model = keras.Sequential([keras.Input((8,)), hidden, *(rest if last else reversed(rest))])
    model.compile("adam", "mse")
    y = labels_of("number", scores)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == expected


@pytest.mark.parametrize(
    ("hidden", "last", "expected"),
    [
        ("sigmoid", "linear", {"sigmoid_between_layers"}),
        ("relu", "sigmoid", set()),
    ],
)
def test_a_sigmoid_between_layers(callback, samples, contracts, hidden, last, expected):
    x, scores = samples
    layers = [keras.layers.Dense(16, hidden), keras.layers.Dense(1, last)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    model.compile("adam", "mse")
    y = labels_of("number", scores)
    y = (y - y.min()) / np.ptp(y)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == expected


@pytest.mark.parametrize(("axis", "expected"), [(1, {"softmax_over_positions"}), (-1, set())])
def test_a_softmax_over_places(callback, contracts, axis, expected):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(64, 5, 4)).astype("float32"), draw.integers(0, 3, (64, 5))
    layers = [keras.layers.Dense(3), keras.layers.Softmax(axis=axis)]
    model = keras.Sequential([keras.Input((5, 4)), *layers])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == expected


def frozen_at_first():
    """A model whose first layers, most of it, are not trainable; and these."""
    layers = keras.layers
    keras.utils.set_random_seed(3)
    base = keras.Sequential(
        [keras.Input((8,)), layers.Dense(160, "relu"), layers.Dense(64, "relu")]
    )
    model = keras.Sequential([base, layers.Dense(3, "softmax")])
    base.trainable = False
    model.compile("adam", SPARSE)
    return model, base


@pytest.mark.parametrize(("trained", "expected"), [(0, {"frozen_random_weights"}), (5, set())])
@pytest.mark.parametrize("frozen", [True, False])
def test_a_model_that_is_frozen_as_it_was_made(
    callback, samples, contracts, trained, expected, frozen
):
    x, scores = samples
    model, base = frozen_at_first()
    y = labels_of("classes", scores)
    if trained:
        base.trainable = True
        model.compile("adam", SPARSE)
        model.fit(x, y, batch_size=64, epochs=trained, verbose=0)
    base.trainable = not frozen
    model.compile("adam", SPARSE)
    tocsin = callback(capture=None)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[tocsin])
    tocsin.close()
    assert contracts() == (expected if frozen else set())


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [("uniform", {"frozen_random_weights"}), ("zeros", set()), ("normal", set())],
)
def test_vectors_of_tokens_that_are_frozen_as_they_were_made(
    callback, contracts, vectors, expected
):
    layers, draw = keras.layers, np.random.default_rng(0)
    table = layers.Embedding(200, 32, vectors if vectors != "normal" else "uniform")
    body = [table, layers.GlobalAveragePooling1D(), layers.Dense(3, "softmax")]
    model = keras.Sequential([keras.Input((6,)), *body])
    table.trainable = False
    if vectors == "normal":  # loaded
        table.set_weights([draw.normal(0, 0.03, (200, 32))])
    model.compile("adam", SPARSE)
    tocsin = callback(capture=None)
    x, y = draw.integers(0, 200, (64, 6)), draw.integers(0, 3, 64)
    model.fit(x, y, verbose=0, callbacks=[tocsin])
    tocsin.close()
    assert contracts() == expected


@pytest.mark.parametrize("thaws", [True, False])
@pytest.mark.parametrize("another", [True, False])
def test_a_body_that_is_frozen_at_first_may_thaw_in_another_fit(
    callback, samples, contracts, tmp_path, thaws, another
):
    x, scores = samples
    model, base = frozen_at_first()
    y = labels_of("classes", scores)
    first = callback(capture=None)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[first])
    if thaws:
        base.trainable = True
        model.compile("adam", SPARSE)
    second = callback(tmp_path / "second", capture=None) if another else first
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[second])
    second.close()
    first.close()
    assert contracts() == (set() if thaws else {"frozen_random_weights"})


def test_a_body_that_is_frozen_until_late(callback, samples, contracts):
    x, scores = samples
    model, _ = frozen_at_first()
    tocsin = callback(save_interval=10, capture=None, close_at_end=False)
    model.fit(
        x, labels_of("classes", scores), batch_size=64, epochs=102, verbose=0, callbacks=[tocsin]
    )
    assert not tocsin._frozen.waits
    tocsin.close()
    assert contracts() == {"frozen_random_weights"}


def test_a_body_that_stays_frozen_until_the_interpreter_exits(tmp_path):
    script = f"""
import keras, numpy as np
from tocsin_hooks.keras import TocsinCallback
base = keras.Sequential([keras.Input((8,)), keras.layers.Dense(160), keras.layers.Dense(64)])
base.trainable = False
model = keras.Sequential([base, keras.layers.Dense(3)])
model.compile("adam", "mse")
model.fit(np.ones((64, 8)), np.ones((64, 3)), callbacks=[TocsinCallback({str(tmp_path)!r})])
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
    trial = create_trial(tmp_path)
    assert trial.tensor_names(regex="contract/frozen_random_weights") != []
    assert trial.loaded_all_steps


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        (keras.callbacks.EarlyStopping("val_loss", mode="max"), {"monitor_mode_reversed"}),
        (keras.callbacks.EarlyStopping("val_loss"), set()),
        (keras.callbacks.ModelCheckpoint("x.keras", "loss", mode="max"), {"monitor_mode_reversed"}),
        (keras.callbacks.ModelCheckpoint("x.keras", "val_accuracy", mode="max"), set()),
        (keras.callbacks.ReduceLROnPlateau("val_accuracy", mode="min"), {"monitor_mode_reversed"}),
    ],
)
def test_callbacks_that_take_the_worst_for_the_best(
    callback, samples, contracts, tmp_path, monkeypatch, beside, expected
):
    monkeypatch.chdir(tmp_path)
    x, scores = samples
    model = model_of(1, None, "mse")
    model.compile("adam", "mse", metrics=["accuracy"])
    ours = callback(capture=None)
    y = labels_of("number", scores)
    model.fit(x, y, batch_size=64, verbose=0, validation_split=0.1, callbacks=[beside, ours])
    assert contracts() == expected


class OwnEnd(keras.layers.Layer):
    """Ends in a softmax, and uses an activation before it."""

    def __init__(self):
        super().__init__()
        self.activation = keras.activations.relu
        self.inner = keras.layers.Dense(3)

    def call(self, x):
        return keras.ops.softmax(self.inner(self.activation(x)))


@pytest.mark.parametrize(
    "end",
    [
        [keras.layers.Softmax(), keras.layers.Activation("linear", dtype="float32")],
        [OwnEnd()],
        [keras.layers.Reshape((3, 1)), keras.layers.Softmax(axis=1), keras.layers.Flatten()],
    ],
    ids=["a type of numbers", "a layer of the script's own", "over another axis"],
)
def test_ends_that_keep_their_contracts(callback, samples, contracts, end):
    x, scores = samples
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3), *end])
    model.compile("adam", SPARSE)
    y = labels_of("classes", scores)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == set()


def test_a_model_that_gives_its_own_loss(callback, samples, contracts):
    x, scores = samples
    model = model_of(1, "softplus", lambda y_true, y_pred: y_pred)
    model.fit(x, scores[:, 0], batch_size=16, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == set()


@pytest.mark.parametrize(
    ("activation", "loss", "expected"),
    [
        ("tanh", "mse", "target_out_of_range"),
        pytest.param(
            *("sigmoid", "binary_crossentropy", "bce_target_out_of_range"),
            marks=pytest.mark.skipif(TORCH, reason="PyTorch refuses such labels"),
        ),
        pytest.param(None, mean_error_squared, "errors_cancel", marks=eager),
        (None, each_with_each, "broadcast_difference"),
    ],
)
def test_contracts_of_a_batch(callback, samples, contracts, activation, loss, expected):
    x, scores = samples
    y = labels_of("number", 10 * scores)
    model_of(1, activation, loss).fit(
        x, y, batch_size=32, verbose=0, callbacks=[callback(capture=None)]
    )
    assert contracts() == {expected}


def test_numbers_of_classes_to_a_sigmoid(callback, samples, contracts):
    x, scores = samples
    model = model_of(1, "sigmoid", "mse")
    y = labels_of("classes", scores)
    model.fit(x, y, batch_size=32, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == {"target_out_of_range"}


def test_a_label_among_the_inputs(callback, samples, contracts):
    x, scores = samples
    table = np.concatenate([x[:, 1:], 3 - scores[:, 1:2]], 1)
    model_of(1, None, "mse").fit(
        table, scores[:, 1], batch_size=32, verbose=0, callbacks=[callback(capture=None)]
    )
    assert contracts() == {"label_among_inputs"}


@pytest.mark.parametrize(
    ("units", "activation", "loss", "labels"),
    [
        (3, "softmax", SPARSE, "classes"),
        (3, "softmax", "categorical_crossentropy", "shares"),
        (3, None, losses.CategoricalCrossentropy(from_logits=True), "shares"),
        (1, "sigmoid", "binary_crossentropy", "first"),
        (1, None, losses.BinaryCrossentropy(from_logits=True), "first"),
        (1, None, "mse", "number"),
        (1, None, "mae", "number"),
        (1, None, losses.Huber(0.5), "number"),
        (1, None, "log_cosh", "number"),
        (1, None, lambda y, p: keras.ops.mean(keras.ops.square(y - p)), "number"),
    ],
)
def test_a_loss_is_compared_with_that_of_other_labels(
    callback, samples, series, units, activation, loss, labels
):
    """What is compared is the loss that Keras says; it gets better, and that of others worse."""
    x, scores = samples
    y = labels_of(labels, scores)
    model_of(units, activation, loss).fit(
        x,
        y,
        batch_size=64,
        epochs=20,
        verbose=0,
        validation_data=(x[:64], y[:64]),
        callbacks=[callback(capture=None)],
    )
    said, found = series("loss"), series("loss/skill")
    for step in (0, 100, 199):
        own, _, _, count = found[step]
        assert own == pytest.approx(said[step], rel=1e-4)
        assert count == 64
    own, other, best, _ = found[199]
    assert own < 0.8 * other
    assert np.isnan(best) or own < 0.8 * best
    evaluated = series("loss/skill", modes.EVAL)
    mean = np.reshape(evaluated[19], (-1, 4))[:, 0].mean()
    assert mean == pytest.approx(series("val_loss", modes.EVAL)[19], rel=1e-3)


@pytest.mark.parametrize("weight", [20.0, 1.0])
def test_weighted_samples_are_compared_as_often_as_they_weigh(callback, samples, series, weight):
    x, scores = samples
    y = labels_of("first", scores)
    model = model_of(1, "sigmoid", "binary_crossentropy")
    weights = {0: 1.0, 1: weight}
    watched = callback(capture=None)
    model.fit(
        x, y, batch_size=64, epochs=20, verbose=0, class_weight=weights,
        validation_data=(x[:64], y[:64]), callbacks=[watched],
    )  # fmt: skip
    assert watched.hook.stats.errors == 0
    said, found = series("loss"), series("loss/skill")
    own, other, best, count = found[199]
    assert count == 64
    mean = np.where(y == 1, weight, 1.0).mean()  # of the weights, by which Keras does not divide
    assert own == pytest.approx(said[199] / mean, rel=0.5)
    assert own < 0.8 * other
    assert own < best


@pytest.mark.parametrize("loss", ["mse", losses.BinaryFocalCrossentropy()])
def test_evaluations_without_the_weights_of_training_are_not_compared(
    callback, samples, trial, loss
):
    x, scores = samples
    y = labels_of("first", scores)
    model_of(1, "sigmoid", loss).fit(
        x, y, batch_size=64, verbose=0, class_weight={0: 1.0, 1: 20.0},
        validation_data=(x, y), callbacks=[callback(capture=None)],
    )  # fmt: skip
    skill = trial().tensor("loss/skill")
    assert len(skill.steps(modes.TRAIN)) == 10
    assert skill.steps(modes.EVAL) == []


def test_single_samples_that_weigh_anything_are_not_compared(callback, samples, trial):
    x, scores = samples
    y, weights = scores[:, 0], np.zeros(len(x), np.float32)
    weights[::64] = 1.0
    model = model_of(1, None, "mse")
    model.fit(x, y, batch_size=64, verbose=0, sample_weight=weights, callbacks=[callback()])
    assert trial().tensor_names(regex=".*/skill") == []
    assert "predictions" in trial().tensor_names()


@pytest.mark.parametrize(
    ("weight", "expected"), [(0.02, {"class_weights_inverted"}), (50.0, set())]
)
def test_weights_of_classes_the_wrong_way_round(callback, samples, contracts, weight, expected):
    x, scores = samples
    y = (scores[:, 0] > np.quantile(scores[:, 0], 0.85)).astype(np.float32)
    model_of(1, "sigmoid", "binary_crossentropy").fit(
        x, y, batch_size=64, verbose=0, class_weight={0: 1.0, 1: weight},
        callbacks=[callback(capture=None)],
    )  # fmt: skip
    assert contracts() == expected


@pytest.mark.parametrize(("weights", "kind"), [(None, None), ({0: 1.0, 1: 5.0}, "weighted")])
def test_labels_that_count_more_than_others(callback, samples, tmp_path, weights, kind):
    x, scores = samples
    y = (scores[:, 0] > 0).astype(np.float32)
    model = model_of(1, "sigmoid", "binary_crossentropy")
    model.fit(x, y, verbose=0, class_weight=weights, callbacks=[callback(capture=None)])
    storage = LocalStorage(tmp_path / "run")
    indexes = [read_index(storage, key) for key in storage.list("index/")]
    assert {e.kind for i in indexes for e in i.entries if e.name == "labels"} == {kind}


def test_fits_and_evaluations_on_several_lines_compare_one_loss(callback, samples, trial):
    x, scores = samples
    y = labels_of("classes", scores)
    model = model_of(3, "softmax", SPARSE)
    watched = callback(capture=None, close_at_end=False)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[watched])
    model.evaluate(x, y, verbose=0, callbacks=[watched])
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[watched])
    watched.close()
    assert trial().tensor_names(regex=".*/skill") == ["loss/skill"]


def test_each_output_is_compared_by_itself(callback, samples, trial):
    x, scores = samples
    inputs = keras.Input((8,))
    body = keras.layers.Dense(16, "relu")(inputs)
    kind = keras.layers.Dense(3, "softmax", name="kind")(body)
    size = keras.layers.Dense(1, name="size")(body)
    for loss, y in (
        ({"kind": SPARSE, "size": "mse"}, {"kind": scores.argmax(1), "size": scores[:, 0]}),
        ([SPARSE, "mse"], [scores.argmax(1), scores[:, 0]]),
    ):
        model = keras.Model(inputs, [kind, size])
        model.compile("adam", loss)
        model.fit(x, y, verbose=0, callbacks=[callback(capture=None)])
    names = set(trial().tensor_names(regex=".*/skill"))
    assert names == {"kind_loss/skill", "size_loss/skill"}


def test_samples_are_counted(callback, samples, series):
    x, scores = samples
    model_of(1, None, "mse").fit(
        x[:32], scores[:32, 0], batch_size=8, verbose=0, callbacks=[callback(capture=None)]
    )
    steps, drawn, elements, *hashes = series("samples")[3]
    assert (steps, drawn, elements) == (1, 8, 8)
    assert len([each for each in hashes if each <= 1]) == 8


def test_steps_between_saves_are_compared_at_the_next_save(callback, samples, series):
    x, scores = samples
    made = callback(capture=None, save_interval=4)
    model_of(1, None, "mse").fit(x, scores[:, 0], batch_size=64, verbose=0, callbacks=[made])
    rows = {step: len(np.atleast_2d(rows)) for step, rows in series("loss/skill").items()}
    assert rows == {0: 1, 4: 4, 8: 4}
    assert {step: value[0] for step, value in series("samples").items()} == rows


def test_evaluations_of_the_script_in_between_are_no_training(callback, samples, series):
    class Evaluates(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.evaluate(x[64:], y[64:], batch_size=8, verbose=0)

    x, y = samples[0], samples[1][:, 0]
    model = model_of(1, None, "mse")
    callbacks = [callback(capture=None), Evaluates()]
    model.fit(x[:64], y[:64], batch_size=16, verbose=0, callbacks=callbacks)
    assert [len(np.atleast_2d(rows)) for rows in series("loss/skill").values()] == [1] * 4
    assert [value[1] for value in series("samples").values()] == [16] * 4


def test_a_loss_with_a_state_and_chance_trains_as_it_would_alone(callback, samples):
    x, scores = samples
    found = []
    for callbacks in ([], [callback(capture=None)]):
        keras.utils.set_random_seed(5)
        mean, chance = keras.Variable(1.0), keras.random.SeedGenerator(3)

        def noisy(y_true, y_pred, mean=mean, chance=chance):
            noise = keras.random.normal((), seed=chance) + np.random.rand()
            errors = keras.ops.mean(keras.ops.square(y_true - y_pred + 0.1 * noise))
            mean.assign(0.9 * mean + 0.1 * keras.ops.stop_gradient(errors))
            return errors / mean

        model = model_of(1, None, noisy)
        model.fit(x, scores[:, :1], shuffle=False, verbose=0, callbacks=callbacks)
        found.append([*model.get_weights(), float(mean)])
    for alone, watched in zip(*found, strict=True):
        np.testing.assert_array_equal(alone, watched)


@pytest.mark.skipif(TORCH, reason="does not compile the step")
class TestCompiledSteps:
    """What the steps give for the hook is seen by nobody else."""

    def test_with_and_without_a_callback_in_turn(self, callback, samples, trial):
        x, y = samples[0], samples[1][:, 0]
        model = model_of(1, None, "mse")
        model.fit(x, y, batch_size=160, verbose=0)  # makes steps that give nothing
        logs = [*model.fit(x, y, batch_size=160, verbose=0, callbacks=[callback()]).history]
        assert trial().tensor("inputs").steps() == [0, 1, 2, 3]
        logs += model.fit(x, y, validation_data=(x, y), verbose=0).history
        logs += model.evaluate(x, y, verbose=0, return_dict=True)
        logs += model.train_on_batch(x, y, return_dict=True)
        assert {*logs} == {"loss", "val_loss"}
        assert not {"compute_metrics", "make_train_function"} & {*vars(model)}

    def test_the_script_evaluates_within_a_batch(self, callback, samples):
        seen = []

        class Evaluates(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                seen.extend(self.model.evaluate(*samples, verbose=0, return_dict=True))

        model = model_of(3, None, "mse")
        model.fit(*samples, batch_size=320, verbose=0, callbacks=[callback(), Evaluates()])
        assert seen == ["loss", "loss"]

    def test_steps_are_not_made_again(self, callback, samples):
        """Each ``fit`` with a callback of its own: to compile a model can take minutes."""
        calls = []

        class Counts(keras.layers.Layer):
            def call(self, x):
                calls.append(x.shape)
                return x

        model = keras.Sequential([keras.Input((8,)), Counts(), keras.layers.Dense(3)])
        model.compile("adam", "mse")
        model.fit(*samples, batch_size=64, verbose=0, callbacks=[callback()])
        before = len(calls)
        for _ in range(2):
            model.fit(*samples, batch_size=64, verbose=0, callbacks=[callback()])
        assert len(calls) == before

    def test_a_step_of_the_script_does_with_its_logs_what_it_wants(self, callback, samples, trial):
        class Own(keras.Sequential):
            def train_step(self, *args):
                found = super().train_step(*args)  # with JAX its logs and the state
                logs, *state = found if isinstance(found, tuple) else (found,)
                logs = {f"my_{name}": each + 0 for name, each in logs.items()}
                return (logs, *state) if state else logs

        model = Own([keras.Input((8,)), keras.layers.Dense(3)])
        model.compile("sgd", "mse")
        history = model.fit(*samples, batch_size=64, verbose=0, callbacks=[callback()]).history
        assert {*history} == {"my_loss"}
        assert "inputs" not in trial().tensor_names()

    def test_large_samples_and_several_steps_at_once_are_left_out(self, callback, trial):
        for options, width in (({}, 1 << 15), ({"steps_per_execution": 2}, 8)):
            model = keras.Sequential([keras.Input((width,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse", **options)
            x = np.ones((64, width), np.float32)
            model.fit(x, x[:, 0], batch_size=16, verbose=0, callbacks=[callback()])
            assert "inputs" not in trial().tensor_names()


def naive(y, p):
    """The cross-entropy of two classes, as it is written in books."""
    return -keras.ops.mean(y * keras.ops.log(p) + (1 - y) * keras.ops.log(1 - p))


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_a_logarithm_in_a_loss_of_the_script(callback, samples, contracts, scale):
    """The graph of a loss is there with PyTorch only."""
    x, scores = samples
    model = model_of(1, "sigmoid", naive)
    y = labels_of("first", scores)[:, None]
    model.fit(x * scale, y, batch_size=64, verbose=0, callbacks=[callback(capture=None)])
    found = {"log_of_zero"} if scale > 1 and TORCH else set()
    assert contracts() == found


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((12, 2), set()), ((4, 3, 2), set()), ((2, 12), {"axes_not_permuted"})],
)
def test_a_reshape_that_moves_axes(callback, samples, contracts, shape, expected):
    x, scores = samples
    model = keras.Sequential(
        [
            keras.layers.Dense(24),
            keras.layers.Reshape((4, 3, 2)),
            keras.layers.Reshape(shape),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    model.fit(x, scores[:, 0], batch_size=64, verbose=0, callbacks=[callback(capture=None)])
    assert contracts() == expected
