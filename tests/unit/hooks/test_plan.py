"""How framework hooks talk to the Hook: steps by callbacks, plans, results that come later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.model import Role, TensorSummary
from tocsin.tensors import Captured
from tocsin.watch import Capture, CollectionConfig, RuleConfig, Watch
from tocsin_hooks import Hook, modes

GRADIENTS = Watch(rules=(RuleConfig("VanishingGradient"),))


def test_a_step_ends_with_the_next_and_with_the_hook(tmp_path: Path, index_files: Any) -> None:
    hook = Hook(tmp_path, save_interval=2)
    saved = []
    for step in range(5):
        saved.append(hook.begin())
        hook.save("loss", float(step), "losses")
    hook.close()
    assert saved == [True, False, True, False, True]
    assert [index.step for index in index_files(tmp_path)] == [0, 2, 4]


def test_a_step_may_be_ended_and_ending_twice_is_harmless(tmp_path: Path, index_files: Any) -> None:
    hook = Hook(tmp_path, save_interval=1)
    hook.end()
    hook.begin(modes.EVAL)
    hook.save("loss", 1.0, "losses")
    hook.end()
    hook.end()
    assert not hook.saving
    hook.close()
    (index,) = index_files(tmp_path)
    assert (index.mode, [entry.name for entry in index.entries]) == (modes.EVAL, ["loss"])


def test_a_collection_asks_for_quantiles(tmp_path: Path, index_files: Any) -> None:
    asked = {name: CollectionConfig(quantiles="0.5, 0.05") for name in ("weights", "losses")}
    with Hook(tmp_path, save_interval=1, capture=Capture(collections=asked)) as hook:
        hook.begin()
        hook.save("w", np.arange(101.0), "weights")
        hook.save("loss", 1.0, "losses")
    (index,) = index_files(tmp_path)
    assert {entry.name: entry.summary.quantiles for entry in index.entries} == {
        "w": {"0.05": 5.0, "0.5": 50.0},
        "loss": None,
    }


@pytest.mark.parametrize(
    ("collection", "asked", "wanted", "planned"),
    [
        ("gradients", False, True, True),
        ("losses", False, True, True),
        ("metrics", False, True, True),
        ("weights", False, False, False),
        ("weights", True, False, True),
        ("mine", False, True, True),
        ("biases", False, True, False),  # not their turn
        (("weights", "mine"), False, True, True),
    ],
)
def test_what_is_wanted(
    tmp_path: Path, collection: Any, asked: bool, wanted: bool, planned: bool
) -> None:
    collections = {
        "mine": CollectionConfig(include_regex="^mine"),
        "biases": CollectionConfig(save_interval=7),
    }
    hook = Hook(tmp_path, GRADIENTS, save_interval=5, capture=Capture(collections=collections))
    for _ in range(6):
        hook.begin()
    assert hook.wants("x", collection) is wanted
    assert (hook.plan("x", collection, asked=asked) is not None) is planned
    hook.begin()
    assert hook.wants("x", collection) is wanted
    assert hook.plan("x", collection, asked=True) is None  # a step that is not saved
    hook.close()


@pytest.mark.parametrize(
    ("mode", "asked", "planned"),
    [
        (modes.TRAIN, False, True),
        (modes.GLOBAL, False, True),
        (modes.EVAL, False, False),
        (modes.PREDICT, False, False),
        (modes.EVAL, True, True),
    ],
)
def test_gradients_belong_to_training(
    tmp_path: Path, mode: Any, asked: bool, planned: bool
) -> None:
    hook = Hook(tmp_path, GRADIENTS, save_interval=1)
    hook.begin(mode)
    assert (hook.plan("g", "gradients", asked=asked) is not None) is planned
    hook.close()


def test_what_is_reduced_elsewhere_is_put(tmp_path: Path, index_files: Any) -> None:
    hook = Hook(tmp_path, save_interval=1)
    hook.begin()
    plan = hook.plan("fc.weight", "weights")
    assert plan is not None
    assert plan.saved.place == (Role.WEIGHT, None)
    summary = TensorSummary(size=4, mean=0.5)
    hook.put(plan, Captured("fc.weight", shape=(2, 2), dtype="float32", summary=summary))
    hook.put_later(
        lambda: [(plan, Captured("fc2.weight", shape=(1, 4), dtype="float32", summary=summary))], 8
    )
    hook.close()
    (index,) = index_files(tmp_path)
    assert [(entry.name, entry.shape, entry.summary.mean) for entry in index.entries] == [
        ("fc.weight", (2, 2), 0.5),
        ("fc2.weight", (1, 4), 0.5),
    ]


def test_a_step_of_nothing_but_what_comes_later_is_saved(tmp_path: Path, index_files: Any) -> None:
    hook = Hook(tmp_path, save_interval=1)
    hook.begin()
    plan = hook.plan("loss", "losses")
    assert plan is not None
    hook.put_later(lambda: [(plan, Captured("loss", value=np.float32([1.0])))])
    hook.close()
    assert len(index_files(tmp_path)) == 1


def test_reductions_and_values_that_the_configuration_asks_for(
    tmp_path: Path, index_files: Any
) -> None:
    collections = {
        "weights": CollectionConfig(reductions="mean,l2_norm"),
        "biases": CollectionConfig(reductions="max", save_raw_tensor=True),
    }
    hook = Hook(tmp_path, save_interval=1, capture=Capture(collections=collections))
    with hook.step():
        hook.save("fc.weight", np.float32([3, 4]), "weights")
        hook.save("fc.bias", np.float32([3, 4]), "biases")
    hook.close()
    (index,) = index_files(tmp_path)
    assert {entry.name: entry.start is not None for entry in index.entries} == {
        "fc.weight": False,
        "smdebug/reductions/mean/fc.weight": True,
        "smdebug/reductions/l2/fc.weight": True,
        "fc.bias": True,
        "smdebug/reductions/max/fc.bias": True,
    }


def test_what_goes_wrong_in_a_plan_costs_that_tensor(tmp_path: Path, caplog: Any) -> None:
    hook = Hook(tmp_path, save_interval=1)
    hook.begin()
    assert hook.plan(7, "weights") is None  # type: ignore[arg-type]  # that is what is wrong
    assert not hook.wants(7)  # type: ignore[arg-type]  # that is what is wrong
    plan = hook.plan("w", "weights")
    assert plan is not None
    hook.capture(plan, object())
    hook.close()
    assert hook.stats.errors == 3
    assert len(caplog.records) == 1


def test_time_counts_once_however_it_is_nested(tmp_path: Path) -> None:
    hook = Hook(tmp_path, save_interval=1)
    hook.begin()
    with hook.measured():
        for _ in range(100):
            hook.save("w", np.zeros(1000), "weights")
    once = hook.stats.seconds
    hook.spent(2.0)
    assert hook.stats.seconds == pytest.approx(once + 2.0)
    hook.close()
