"""The model checkpoints of ``ModelCheckpoint``, as saved steps name them."""

from __future__ import annotations

import keras
import pytest
from tocsin.tensors import LocalStorage, index_objects, read_index


def named(run):
    """By step, the checkpoint that its file names."""
    storage = LocalStorage(run)
    files = [read_index(storage, each) for each in index_objects(storage)]
    return {file.step: file.meta.checkpoint for file in files if file.meta.checkpoint}


@pytest.mark.parametrize("first", [True, False], ids=["ours first", "ours last"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # five batches and no evaluation make an epoch
        ({"filepath": "at{epoch}[x].keras"}, {5: "at1[x].keras", 10: "at2[x].keras"}),
        ({"filepath": "m.weights.h5", "save_weights_only": True}, {5: "m.weights.h5"}),
        ({"filepath": "m.keras", "save_freq": 3}, {3: "m.keras"}),
    ],
)
def test_saved_steps_name_the_newest(make, data, callback, tmp_path, first, options, expected):
    folder = tmp_path / "models"
    saver = keras.callbacks.ModelCheckpoint(**{**options, "filepath": folder / options["filepath"]})
    ours = callback()
    beside = [ours, saver] if first else [saver, ours]
    make().fit(*data, batch_size=10, epochs=3, callbacks=beside, verbose=0)
    found = named(tmp_path / "run")
    for step, name in expected.items():
        assert found[step].path == str(folder / name)
        assert found[step].step == step - 1
    assert not any(at < found[at].step for at in found)


def test_models_of_an_earlier_training_do_not_count(make, data, callback, tmp_path):
    path = tmp_path / "m.keras"
    make().save(path)
    saver = keras.callbacks.ModelCheckpoint(path, monitor="loss", mode="max", save_best_only=True)
    saver.best = 1e9  # so that nothing is saved
    make().fit(*data, batch_size=10, epochs=2, callbacks=[callback(), saver], verbose=0)
    assert named(tmp_path / "run") == {}
