"""A run as a chart."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tocsin
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured, Collection, RunMeta
from tocsin.trial.plot import fired_steps, plot


def test_without_altair(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    trial = run.collections().step(0).trial()
    with pytest.raises(ModuleNotFoundError, match=r"^trial\.plot needs Altair: pip install"):
        trial.plot()


def _points(chart):
    return chart.to_dict()["data"]["values"]


def test_lines(run):
    run.collections(2)
    for step in range(3):
        run.step(
            10 * step,
            "worker_0",
            "worker_1",
            mode_step=step,
            tensors={"loss": 1.0 / step if step else np.inf},
        )
    trial = run.trial()
    chart = trial.plot("loss").to_dict()
    assert chart["encoding"]["x"]["field"] == "step"
    assert chart["encoding"]["y"]["field"] == "value"
    assert chart["encoding"]["strokeDash"]["field"] == "worker"
    one = trial.plot("loss", mode=Mode.TRAIN, worker="worker_0")
    assert "strokeDash" not in one.to_dict()["encoding"]
    assert [(p["mode_step"], p["value"]) for p in _points(one)] == [(0, None), (1, 1.0), (2, 0.5)]


def test_summaries(run):
    captured = [Captured("w", shape=(6,), summary=TensorSummary(size=6, mean=2.0))]
    trial = run.collections().step(0, captured=captured, meta=RunMeta("r")).trial()
    assert trial.plot().to_dict()["encoding"]["y"]["field"] == "mean"
    assert trial.plot(y="size").to_dict()["encoding"]["y"]["field"] == "size"
    with pytest.raises(ValueError, match=r"no tensor has 'l2', there are \['size', 'mean'\]"):
        trial.plot(y="l2")
    with pytest.raises(ValueError, match=r"regex 'nothing' selects no tensor\. The run has w\.$"):
        trial.plot("nothing")


def test_title_scale_and_collection(run):
    run.collections(collections=[Collection("losses", include_regex=("loss",))])
    for step, loss in enumerate((1.0, 0.0, 10.0)):
        run.step(step, tensors={"loss": loss, "w": 1.0})
    trial = run.trial()
    chart = trial.plot(collection="losses", log=True)
    assert [(p["tensor"], p["value"]) for p in _points(chart)] == [
        ("loss", 1.0),
        ("loss", None),
        ("loss", 10.0),
    ]
    assert chart.to_dict()["encoding"]["y"]["scale"]["type"] == "log"
    assert chart.to_dict()["title"] == trial.name
    assert trial.plot(title="mine").to_dict()["title"] == "mine"
    with pytest.raises(ValueError, match=r"'gradients' selects no tensor\. The run has l"):
        trial.plot(collection="gradients")


def test_rules_that_fired_are_marked(run):
    at = {"step": 20, "mode": "EVAL", "mode_step": 2}
    rules = [
        {"RuleConfigurationName": "LossSpike", "FiredAt": at},
        {"RuleConfigurationName": "Overfit", "FiredAt": at},
        {"RuleConfigurationName": "DeadRelu"},
    ]
    assert fired_steps({"rules": rules}) == {"LossSpike": 20, "Overfit": 20}
    assert fired_steps({"rules": rules}, "EVAL") == {"LossSpike": 2, "Overfit": 2}
    assert fired_steps({"rules": rules}, "TRAIN") == {}
    trial = run.collections().step(0, tensors={"loss": 1.0}).trial()
    for fired in ({"rules": rules}, {"LossSpike": 20, "Overfit": 20}):
        chart = trial.plot(fired=fired).to_dict()
        line, _, text = chart["layer"]
        assert line["encoding"]["y"]["field"] == "value"
        assert text["encoding"]["text"]["field"] == "rules"
        (mark,) = text["data"]["values"]
        assert mark == {"step": 20, "rules": "LossSpike, Overfit"}


@pytest.mark.parametrize(("steps", "lines"), [(5000, 1), (20_000, 1), (400, 100), (3, 6000)])
def test_long_lines_are_thinned(steps, lines):
    names = ("step", "mode", "mode_step", "worker", "tensor", "value")
    rows = [
        dict(zip(names, (step, "TRAIN", step, "worker_0", f"t{line}", 1.0), strict=True))
        for step in range(steps)
        for line in range(lines)
    ]
    points = plot(rows, "step").data.values
    assert 2400 <= len(points) <= max(5000, 2 * lines)
    assert {point["step"] for point in points} >= {0, steps - 1}


def test_report_is_shown_in_a_frame_of_its_own(run):
    for step in range(3):
        run.step(step, "worker_0", mode_step=step, tensors={"loss": 1.0})
    with pytest.raises(ValueError, match=r"tocsin\.create_trial"):
        run.trial().report()
    shown = tocsin.create_trial(run.path).report()._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert 'sandbox="allow-scripts"' in shown
    assert "<script" not in shown
