"""``import tocsin``."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tocsin
import tocsin.custom
import tocsin.notebook
import tocsin.trial
from tocsin.model import Mode
from tocsin.rules import register

from tests.waiting import PATIENCE


def test_the_names():
    assert tocsin.__all__ == sorted(tocsin.__all__)
    from_trial = tocsin.trial.TrialTensor
    rules = {name: getattr(tocsin.custom, name) for name in ("Rule", "invoke_rule")}
    reading = {name for name in tocsin.__all__ if hasattr(tocsin.trial, name)}
    assert {"create_trial", "no_refresh", "NoMoreData", "StepUnavailable"} <= reading
    assert {name: getattr(tocsin, name) for name in tocsin.__all__} == {
        **{name: getattr(tocsin.trial, name) for name in reading},
        **rules,
        "create_trial": tocsin.notebook.create_trial,
        "Tensor": from_trial,
        "Mode": Mode,
        "modes": Mode,
        "register": register,
    }
    assert set(tocsin.__all__) <= set(dir(tocsin))


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'tocsin' has no attribute 'nothing'"):
        tocsin.nothing  # noqa: B018
    with pytest.raises(ImportError):
        from tocsin import nothing  # noqa: F401


@pytest.mark.parametrize(
    ("statement", "without"),
    [
        ("import tocsin", "numpy msgspec boto3 typer rich"),
        ("from tocsin import modes", "numpy boto3 typer rich"),
        ("from tocsin import Rule, register", "boto3 typer rich"),
        ("from tocsin import create_trial", "boto3 typer rich pandas altair"),
    ],
)
def test_what_is_not_asked_for_is_not_loaded(statement, without):
    loaded = f"' '.join(set({without!r}.split()) & set(sys.modules))"
    code = f"import sys; {statement}; sys.exit({loaded} or 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
