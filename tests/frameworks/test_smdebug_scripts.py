"""Scripts that are written for smdebug save the same by ``tocsin.smdebug`` as by smdebug."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin import TensorUnavailableForStep, create_trial, modes

from tests.frameworks.environment import HERE, ROOT, python_with

SCRIPTS = sorted((HERE / "smdebug_scripts").glob("*.py"))
# Saved besides: what no collection of smdebug has a name for, and what rules look at.
MORE = {
    "learning_rate": "the rate of the optimizer",
    "samples": "hashes of the samples",
    "_input_": "what a loss compares",
    "bias": "of a single element, whose summary is its value",
    "skill": "how good the predictions are",
    "hyperparameters": "all of the booster's, and not those given to the hook alone",
    "feature_importance": "of features that are not split on, which is 0",
}


def run(library: str, script: Path, out: Path) -> Any:
    """The trial of what a script saves with smdebug, or with us."""
    environment = python_with(script.stem.partition("_")[0])
    smdebug = next(python_with("smdebug").parents[1].glob("lib/python*/site-packages"))
    done = subprocess.run(
        [environment, HERE / "run_smdebug_script.py", library, script, out, smdebug],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'rules_layer'}:{ROOT / 'hooks'}"},
    )
    assert done.returncode == 0, done.stderr
    return create_trial(out)


@pytest.fixture(scope="module", params=SCRIPTS, ids=lambda script: script.stem)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param.stem)
    return tuple(run(each, request.param, folder / each) for each in ("smdebug", "tocsin"))


def test_steps_are_equal(both: Any) -> None:
    theirs, ours = both
    assert ours.steps() == theirs.steps()
    for mode in theirs.modes():  # without set_mode smdebug's steps have none
        assert ours.steps(mode=mode) == theirs.steps(mode=mode)
    assert all(len(theirs.steps(mode=mode)) > 1 for mode in theirs.modes() or [modes.GLOBAL])


def test_names_are_equal(both: Any) -> None:
    theirs, ours = (valued(trial) for trial in both)
    assert not theirs.keys() - ours.keys()
    assert len(theirs) > 2
    more = ours.keys() - theirs.keys()
    assert [name for name in more if not any(each in name for each in MORE)] == []


def test_values_are_equal(both: Any) -> None:
    theirs, ours = (valued(trial) for trial in both)
    for name, values in theirs.items():
        mine = ours[name]
        if name.startswith("hyperparameters/"):  # saved once: they do not change
            values = {step: values[step] for step in mine}
        elif name.startswith("gradient/net_"):  # smdebug saves those of training in evaluations
            values = {step: values[step] for step in values if step < 6}
        assert mine.keys() == values.keys(), name
        for step, value in values.items():
            if value.dtype.kind in "US":
                assert mine[step].astype(str).tolist() == value.astype(str).tolist()
            else:
                np.testing.assert_allclose(mine[step], value, rtol=1e-5, err_msg=f"{name} {step}")


def test_reductions_are_equal(both: Any) -> None:
    theirs, ours = both
    for name in theirs.tensor_names():
        tensor = theirs.tensor(name)
        for step in tensor.steps():
            for (reduction, absolute), value in tensor.reduction_values(step).items():
                mine = ours.tensor(name).reduction_value(step, reduction, abs=absolute)
                tolerance = 0.2 if reduction in ("std", "variance") else 1e-4  # of a sample there
                np.testing.assert_allclose(mine, value, rtol=tolerance, err_msg=name)


def valued(trial: Any) -> dict[str, dict[int, Any]]:
    """Name → step → value, of the tensors whose values were saved."""
    found: dict[str, dict[int, Any]] = {}
    for tensor in map(trial.tensor, trial.tensor_names()):
        for step in tensor.steps():
            with suppress(TensorUnavailableForStep):
                found.setdefault(tensor.name, {})[step] = tensor.value(step)
    return found


def test_the_notebook_of_the_page_prints_the_same(tmp_path: Path) -> None:
    run = ROOT / "tests" / "fixtures" / "smdebug" / "torch_mlp" / "run"
    page = (ROOT / "docs" / "migration.md").read_text()
    cells = next(block for block in page.split("```python\n") if "from smdebug import" in block)
    notebook = tmp_path / "notebook.py"
    # Its last cell is the profiler's, where smdebug looks at each minute until now: see
    # test_smdebug_profiler.py.
    notebook.write_text(f"run = {str(run)!r}\n{cells.partition('frame = ')[0]}")
    said = []
    for library, python in (("smdebug", python_with("smdebug")), ("tocsin", sys.executable)):
        done = subprocess.run(
            [python, HERE / "run_smdebug_script.py", library, notebook, "out"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'rules_layer'}:{ROOT / 'hooks'}"},
        )
        assert done.returncode == 0, done.stderr
        said.append([line for line in done.stdout.splitlines() if not line.startswith("[2")])
    assert [numbers(line) for line in said[0]] == [numbers(line) for line in said[1]]
    assert len(said[0]) > 10


def numbers(line: str) -> list[Any]:
    """The words of a line, and its numbers to six digits."""
    words = re.split(r"[\s,{}()\[\]']+", line)
    return [float(f"{float(word):.6g}") if _is_number(word) else word for word in words if word]


def _is_number(word: str) -> bool:
    with suppress(ValueError):
        float(word)
        return True
    return False
