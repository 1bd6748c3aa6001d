"""No error of ours reaches a training of Keras, wherever it is."""

import itertools

from tocsin_hooks.keras import TocsinCallback

from tests.injection import harmful


def test_no_error_of_ours_reaches_a_training(make, data, tmp_path):
    runs = itertools.count()
    x, y = data

    def training():
        model = make("sgd")
        callback = TocsinCallback(tmp_path / str(next(runs)), save_interval=1)
        model.fit(x, y, epochs=1, batch_size=25, shuffle=False, verbose=0, callbacks=[callback])
        return [weights.tolist() for weights in model.get_weights()]

    making = ("intervals", "TocsinCallback.__init__.<locals>.<dictcomp>")  # there is no hook yet
    assert set(harmful(training, "keras/")) == {
        f"{each} raises into the training" for each in making
    }
