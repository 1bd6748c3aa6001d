"""The real TensorBoard reads what ``export_tensorboard`` writes."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.judge.mirror import in_words, mirror_of
from tocsin.model import Mode
from tocsin.tensors import Captured, RunWriter, export_tensorboard, open_storage, summarize
from tocsin.trial import create_trial

from tests.frameworks.environment import answer
from tests.unit.alerts.world import alert

STEPS = (0, 10, 20)


def weight(step):
    return np.random.default_rng(step).standard_normal((200, 100)).astype(np.float32)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    storage = open_storage(folder / "run")
    writer = RunWriter(storage, run_id="0123")
    for step in STEPS:
        tensors = [
            Captured("loss", np.float32(1 / (1 + step)), wall_time=1700000000.25 + step),
            Captured("layer/ü weight:0", weight(step)),
            Captured("known", shape=(2,), summary=summarize(np.array([1.0, 3.0]))),
            Captured("text", ["a"]),
        ]
        writer.write(step, Mode.TRAIN, step, tensors)
        writer.write(step + 1, Mode.EVAL, step, [Captured("accuracy", 0.5)])
    writer.write_collections([])
    trial = create_trial(folder / "run")
    indexes = [file for step in trial.steps() for file in trial.index_files(step)]
    export_tensorboard(storage, indexes, folder / "board")
    return answer("tensorboard", "read_tensorboard.py", folder / "board")


def test_there_is_a_run_for_each_mode(seen):
    assert sorted(seen["runs"]) == sorted(seen["shown"]) == ["EVAL", "TRAIN"]


def test_scalars(seen):
    scalars = seen["runs"]["TRAIN"]["scalars"]
    assert scalars["loss"] == [
        [step, 1700000000.25 + step, float(np.float32(1 / (1 + step)))] for step in STEPS
    ]
    assert [value for _, _, value in scalars["known/mean"]] == [2.0] * 3
    assert "text" not in scalars
    accuracy = seen["runs"]["EVAL"]["scalars"]["accuracy"]
    assert [(step, value) for step, _, value in accuracy] == [(1, 0.5), (11, 0.5), (21, 0.5)]


def test_histograms(seen):
    ((name, events),) = seen["runs"]["TRAIN"]["histograms"].items()
    assert name == "layer/ü weight:0"
    assert [step for step, _ in events] == list(STEPS)
    for step, found in events:
        value = weight(step).astype(float)
        assert (found["min"], found["max"], found["num"]) == (value.min(), value.max(), value.size)
        assert found["sum"] == pytest.approx(value.sum())
        assert found["sum_squares"] == pytest.approx((value**2).sum())
        counts, limits = np.histogram(value, bins=30)
        assert found["bucket"] == counts.tolist()
        assert found["bucket_limit"] == pytest.approx(limits[1:])


def test_what_the_plugins_show(seen):
    shown = seen["shown"]["TRAIN"]
    assert [step for step, _ in shown["scalars"]["loss"]] == list(STEPS)
    for step, buckets in shown["histograms"]["layer/ü weight:0"]:
        assert step in STEPS
        assert sum(count for _, _, count in buckets) == weight(step).size


def test_the_statuses_of_rules_are_texts(tmp_path):
    write = mirror_of(f"tensorboard={tmp_path}")
    for step, firing in ((7, True), (9, False)):
        change = alert(
            "Loss/Diverging", firing=firing, Severity="warning", Step=step, StatusDetails="a <b>"
        )
        write(change, in_words(change))
    texts = answer("tensorboard", "read_tensorboard.py", tmp_path)["shown"]["."]["text"]
    ((tag, found),) = texts.items()
    assert tag == "tocsin/Loss_Diverging"
    assert [step for step, _ in found] == [7, 9]
    assert found[0][1][0].startswith("    IssuesFound (warning) at step 7: a <b>")
