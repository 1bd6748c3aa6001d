"""The real smdebug reads a run that our hook for PyTorch has captured."""

from __future__ import annotations

import pytest

from tests.frameworks.environment import answer

SAVED = ["0", "2", "4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The weights before each step, and what smdebug sees of the run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    weights = answer("torch", "hook_torch.py", folder)
    return weights, answer("smdebug", "read_smdebug.py", folder)


def test_steps_and_modes(trained):
    _, seen = trained
    assert seen["loaded_all_steps"]
    assert seen["steps"]["TRAIN"] == [0, 2, 4]
    assert seen["steps"]["EVAL"] == [0]


def test_names_are_those_that_smdebug_gives(trained):
    _, seen = trained
    parameters = {"Net_fc1.weight", "Net_fc1.bias", "Net_fc2.weight", "Net_fc2.bias"}
    assert parameters | {f"gradient/{name}" for name in parameters} <= set(seen["names"])
    assert "CrossEntropyLoss_output_0" in seen["names"]
    collections = seen["collections"]
    assert set(collections["weights"]["tensor_names"]) == {"Net_fc1.weight", "Net_fc2.weight"}
    assert set(collections["losses"]["tensor_names"]) == {"CrossEntropyLoss_output_0"}


def test_values(trained):
    weights, seen = trained
    cells = seen["tensors"]["Net_fc1.weight"]
    assert {step: by_worker["worker_0"]["value"]["value"] for step, by_worker in cells.items()} == {
        step: weights[step] for step in SAVED
    }


def test_reductions(trained):
    _, seen = trained
    cells = seen["tensors"]["gradient/Net_fc1.weight"]
    assert sorted(cells) == SAVED
    for by_worker in cells.values():
        assert set(by_worker["worker_0"]["reductions"]) == {"mean", "l2"}
