"""A run as a DataFrame."""

from __future__ import annotations

import sys

import pandas
import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured, RunMeta


def test_without_pandas(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    trial = run.collections().step(0).trial()
    with pytest.raises(ModuleNotFoundError, match=r"^trial\.dataframe needs pandas: pip"):
        trial.dataframe()


def test_dataframe(run):
    summary = [Captured("w", shape=(2, 3), summary=TensorSummary(size=6, mean=2.0))]
    run.collections().step(10, mode_step=1).step(20, captured=summary, meta=RunMeta("r"))
    run.step(30, mode=Mode.EVAL, mode_step=0)
    trial = run.trial()
    frame = trial.dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == [
        *("step", "mode", "mode_step", "worker", "tensor", "value", "size", "mean"),
    ]
    assert frame["step"].tolist() == [10, 20, 30]
    assert frame.set_index("tensor").loc["w", "mean"] == 2.0
    assert list(trial.dataframe("loss", mode=Mode.EVAL)["value"]) == [30.0]
    empty = trial.dataframe("nothing")
    assert (len(empty), list(empty.columns)[-1]) == (0, "value")
