"""Beginnings and ends: of a fit, of several, of one that fails, of one that is stopped."""

from __future__ import annotations

import re
from pathlib import Path

import keras
import numpy as np
import pytest
from tocsin import modes
from tocsin.tensors import END_MARKER, LocalStorage
from tocsin_hooks import Hook
from tocsin_hooks.keras import TocsinCallback

from tests.waiting import becomes

PAGE = Path(__file__).parents[4] / "docs" / "hooks" / "keras.md"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIT = {"batch_size": 25, "verbose": 0}
FAR = b'{"requested_at": "2999-01-01T00:00:00Z", "rule": "R", "reason": "why"}'


def marked(run):
    return (run / END_MARKER).exists()


def test_the_end_of_fit_is_the_end_of_the_run(make, callback, data, tmp_path):
    make().fit(*data, callbacks=[callback()], **FIT)
    assert marked(tmp_path / "run")


def test_a_second_fit_takes_the_run_up(make, callback, data, tmp_path, trial, series):
    made, model = callback(), make()
    for _ in range(2):
        model.fit(*data, callbacks=[made], validation_data=data, **FIT)
        assert marked(tmp_path / "run")
    assert trial().steps(modes.TRAIN) == [0, 1, 2, 3]
    assert trial().steps(modes.EVAL) == [0, 1]
    assert made.hook.position == {"TRAIN": 4, "EVAL": 2, "PREDICT": 0, "GLOBAL": 6}


def test_a_run_can_be_left_open(make, callback, data, tmp_path, trial):
    made, model = callback(close_at_end=False), make()
    for _ in range(3):
        model.fit(*data, callbacks=[made], **FIT)
        assert not marked(tmp_path / "run")
    first = made.hook
    made.close()
    assert made.hook is first
    assert marked(tmp_path / "run")
    assert trial().steps(modes.TRAIN) == list(range(6))


def test_a_hook_that_was_given_is_left_open(make, callback, data, tmp_path, trial):
    hook = Hook(tmp_path / "run", save_interval=1, max_overhead=None)
    with hook.step(modes.TRAIN):
        hook.save("loss", 1.0, "losses")
    make().fit(*data, callbacks=[callback(hook)], **FIT)
    assert not marked(tmp_path / "run")
    hook.close()
    assert trial().steps(modes.TRAIN) == [0, 1, 2]


def test_a_fit_that_fails_leaves_what_it_had_and_no_end(make, callback, data, tmp_path, trial):
    class Fails(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 3:
                raise RuntimeError("out of memory")

    made = callback()
    with pytest.raises(RuntimeError, match="out of memory"):
        make().fit(*data, batch_size=10, verbose=0, callbacks=[made, Fails()])
    made.close(finished=False)
    assert not marked(tmp_path / "run")
    assert trial().steps(modes.TRAIN) == [0, 1, 2]


def test_a_fit_after_one_that_failed(make, callback, data, trial):
    class Fails(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            raise RuntimeError

    made, model = callback(), make()
    with pytest.raises(RuntimeError):
        model.fit(*data, callbacks=[made, Fails()], **FIT)
    model = make()
    model.evaluate(*data, verbose=0, callbacks=[made])  # of its own, not of the fit
    model.fit(*data, callbacks=[made], **FIT)
    assert trial().steps(modes.TRAIN) == [1, 2]
    assert "val_loss" not in trial().tensor_names()


def test_a_request_stops_the_fit(make, callback, data, tmp_path, trial):
    class Asks(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                LocalStorage(tmp_path / "run").write("STOP.json", FAR)
                assert becomes(lambda: made.hook.should_stop)  # it looks in the background

    made = callback(poll_interval=0.01)
    history = make().fit(*data, epochs=50, callbacks=[made, Asks()], **FIT)
    assert len(history.epoch) == 3
    assert trial().steps(modes.TRAIN) == [0, 1, 2, 3, 4]
    assert marked(tmp_path / "run")


def test_switched_off(make, callback, data, tmp_path, monkeypatch):
    monkeypatch.setenv("TOCSIN", "0")
    make().fit(*data, callbacks=[callback()], **FIT)
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_not_built_yet(callback, data, trial):
    model = keras.Sequential([keras.layers.Dense(3, name="late")])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*data, callbacks=[callback()], **FIT)
    assert "late/weights/late/kernel:0" in trial().tensor_names()


def test_variables_of_the_same_name_are_numbered(callback, data, trial):
    """Two layers of one name, side by side in a model within the model."""
    x = keras.Input((8,))
    halves = [keras.Model(x, keras.layers.Dense(3, name="same")(x), name=name) for name in "ab"]
    inner = keras.Model(x, keras.layers.Add()([half(x) for half in halves]), name="inner")
    model = keras.Model(x, inner(x))
    model.compile("sgd", "mse")
    model.fit(data[0], np.ones((50, 3)), callbacks=[callback()], **FIT)
    expected = {"inner/weights/same/kernel:0", "inner/weights/same/kernel_1:0"}
    assert set(trial().tensor_names(collection="weights")) == expected


def test_a_restart_counts_on(make, data, tmp_path, trial, monkeypatch):
    """The page's own code, cut short by a failure and started again."""
    (code,) = (each for each in PYTHON.findall(PAGE.read_text()) if "BackupAndRestore" in each)
    code = code.replace('"s3://BUCKET/jobs/j1",', '"run", save_interval=1, max_overhead=None,')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "backup").mkdir()

    class Crash(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise RuntimeError("power cut")

    def job(*more):
        model = make()
        names = {"model": model, "x": data[0], "y": data[1]}
        fit = model.fit
        model.fit = lambda *args, callbacks, **options: fit(
            *args, callbacks=[*callbacks, *more], verbose=0, **options
        )
        try:
            exec(code, names)  # noqa: S102 - it is our own page
        finally:
            names["tocsin"].close(finished=False)

    with pytest.raises(RuntimeError, match="power cut"):
        job(Crash())
    assert trial().steps(modes.TRAIN) == list(range(2 * 2))
    job()
    assert trial().steps(modes.TRAIN) == list(range(10 * 2))


def test_a_watch_file_with_an_error_is_raised_before_the_training(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.yaml"):
        TocsinCallback(tmp_path / "run", watch=tmp_path / "missing.yaml")
