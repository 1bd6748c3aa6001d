"""A run of ours answers the queries that a run by smdebug's own XGBoost hook answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tocsin import create_trial, modes
from tocsin.watch import Capture, CollectionConfig

EXPECTED = json.loads(
    Path(__file__).parents[2].joinpath("fixtures/smdebug/xgboost/expected.json").read_text()
)["trial"]
COLLECTIONS = [
    name
    for name in EXPECTED["collections"]
    if name not in ("all", "default")  # those are empty
]


@pytest.fixture
def trial(train: Any, data: Any, tmp_path: Path) -> Any:
    """The same data sizes, parameters, rounds and interval as in the run by smdebug."""
    capture = Capture(save_interval=5, collections={n: CollectionConfig() for n in COLLECTIONS})
    options = {"capture": capture, "save_interval": None, "train": data[0]}
    train(11, parameters={"eta": 0.3, "seed": 0}, options=options)
    return create_trial(tmp_path / "run")


def test_the_run_as_a_whole(trial: Any) -> None:
    assert trial.steps() == EXPECTED["steps_global"]
    assert trial.steps(mode=modes.GLOBAL) == EXPECTED["steps_by_mode"]["GLOBAL"]
    assert trial.steps(mode=modes.TRAIN) == EXPECTED["steps_global"]
    assert trial.workers() == EXPECTED["workers"]
    assert trial.loaded_all_steps is EXPECTED["loaded_all_steps"]
    for step, state in EXPECTED["has_passed_step"].items():
        assert trial.has_passed_step(int(step)).name == state, step


def test_every_tensor_of_theirs_is_in_ours(trial: Any) -> None:
    ours = set(trial.tensor_names())
    assert set(EXPECTED["tensor_names"]) <= ours
    others = {name.partition("/")[0] for name in ours - set(EXPECTED["tensor_names"])}
    assert others == {"hyperparameters", "columns"}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_collections_hold_the_same(trial: Any, name: str) -> None:
    theirs = EXPECTED["collections"][name]
    ours = trial.tensor_names(collection=name)
    if name == "hyperparameters":
        assert set(theirs["matching_saved"]) <= set(ours)
    else:
        assert ours == theirs["matching_saved"]
    found = {each for regex in theirs["include_regex"] for each in trial.tensor_names(regex=regex)}
    assert found == set(ours)


@pytest.mark.parametrize("name", EXPECTED["tensor_names"])
def test_types_and_shapes_are_the_same(trial: Any, name: str) -> None:
    for place, theirs in EXPECTED["tensors"][name]["values"].items():
        step = int(place.partition("|")[0])
        if name.startswith("hyperparameters/") and step:
            continue  # ours are saved once
        if step not in trial.tensor(name).steps():
            continue  # smdebug names a feature from the first split by it
        value = trial.tensor(name).value(step, mode=modes.GLOBAL)
        if theirs["dtype"].startswith(("<U", "str", "object")):
            assert value.dtype.kind in "UO"
        else:
            assert str(value.dtype) == theirs["dtype"]
        if not name.startswith("trees/"):  # how many nodes there are depends on the data
            assert list(value.shape) == theirs["shape"]


def test_importances_are_shares(trial: Any) -> None:
    for kind in ("weight", "gain", "cover", "total_gain", "total_cover"):
        names = trial.tensor_names(regex=f"^feature_importance/{kind}/")
        for step in trial.steps():
            there = [name for name in names if step in trial.tensor(name).steps()]
            shares = [float(trial.tensor(name).value(step)[0]) for name in there]
            assert sum(shares) == pytest.approx(1)


def test_the_average_is_that_of_the_matrix_which_every_feature_has(trial: Any) -> None:
    for index, feature in enumerate(("f0", "f1", "f2", "f3")):
        whole = trial.tensor(f"full_shap/{feature}").value(10)
        assert whole.shape == (40, 5)  # of each sample: the features, and the bias
        average = trial.tensor(f"average_shap/{feature}").value(10)
        assert average == pytest.approx(whole[:, index].mean(), rel=1e-5)
