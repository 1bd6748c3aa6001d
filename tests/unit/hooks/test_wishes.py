"""What a hook captures because rules want it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tocsin.model import Bounds, Detail, Role
from tocsin.rules import Read, Reads
from tocsin.trial import create_trial
from tocsin.watch import PatternMatcher, resolve, to_watch
from tocsin_hooks import Hook
from tocsin_hooks.plan import Saved, Wish
from tocsin_hooks.wishes import Wishes, wanting


@pytest.mark.parametrize(
    ("read", "saved", "wanted"),
    [
        (Read(), Saved("x", ("default",)), True),
        (Read(roles=(Role.LOSS,)), Saved("x", ("losses",)), True),
        (Read(roles=(Role.LOSS,)), Saved("x", ("default",), Role.LOSS), True),
        (Read(roles=(Role.LOSS,)), Saved("x", ("weights",)), False),
        (Read(roles=(Role.GRADIENT,)), Saved("gradient/fc.weight", ("default",)), True),
        (
            Read(roles=(Role.ACTIVATION_OUTPUT,), kinds=("relu",)),
            Saved("a", ("relu_output",)),
            True,
        ),
        (
            Read(roles=(Role.ACTIVATION_INPUT,), kinds=("tanh",)),
            Saved("a", ("tanh_input",)),
            True,
        ),
        (
            Read(roles=(Role.PREDICTION,), kinds=("relu",)),
            Saved("relu_output", ("default",), Role.PREDICTION),
            False,
        ),
        (
            Read(roles=(Role.ACTIVATION_OUTPUT,), kinds=("relu",)),
            Saved("a", ("activation_outputs",), kind="relu"),
            True,
        ),
        (Read(collections=("mine",)), Saved("x", ("mine", "losses")), True),
        (Read(collections=("all",)), Saved("x", ("default",)), True),
        (Read(regex=("^x$",)), Saved("x", ("default",)), True),
        (Read(regex=("^x$",)), Saved("xy", ("default",)), False),
        (Read(regex=("(",)), Saved("x", ("default",)), False),
    ],
)
def test_what_a_read_selects(read: Read, saved: Saved, wanted: bool) -> None:
    (rule,), _ = resolve(to_watch({"rules": ["ExplodingTensor"]}))
    rule = replace(rule, reads=Reads({"found": read}))
    assert bool([*wanting([rule], saved, PatternMatcher())]) is wanted


def test_what_is_excluded_is_not_wished_for() -> None:
    rule = {"rule": "DeadRelu", "parameters": {"tensor_regex": "relu"}, "exclude": "relu0"}
    wishes = Wishes(to_watch({"rules": [rule]}), PatternMatcher(), alone=False)
    assert wishes.of(Saved("relu0", ("default",))) == (Wish(), False)
    details = (Detail(active=(0.0, None)),)
    assert wishes.of(Saved("relu1", ("default",))) == (Wish(details), True)


def test_a_rule_that_looks_at_whatever_there_is_asks_for_nothing() -> None:
    wishes = Wishes(to_watch({"rules": ["ExplodingTensor"]}), PatternMatcher(), alone=False)
    assert wishes.of(Saved("fc1_output_0", ("default",))) == (Wish(), False)
    chosen = {"rule": "ExplodingTensor", "parameters": {"collection_names": "all"}}
    assert wishes_of(chosen, Saved("fc1_output_0", ("default",))) == (Wish(), True)


def wishes_of(rule: dict[str, object], saved: Saved) -> tuple[Wish, bool]:
    return Wishes(to_watch({"rules": [rule]}), PatternMatcher(), alone=False).of(saved)


def test_nothing_is_fetched_for_a_rule_whose_details_the_hook_captured(tmp_path: Path) -> None:
    hook = Hook(tmp_path, to_watch({"rules": ["DeadRelu"]}), save_interval=1)
    with hook.step():
        hook.save("relu", np.float32([[0, 1], [0, 2]]), "activation_outputs", kind="relu")
    hook.close()
    (index,) = create_trial(tmp_path).index_files(0)
    (entry,) = index.entries
    assert entry.start is None
    assert entry.summary is not None
    assert entry.summary.bounds == Bounds(0.0, None, below=2)
    assert (entry.summary.units, entry.summary.inactive_units) == (2, 1)


def test_updates_against_the_save_before(tmp_path: Path) -> None:
    hook = Hook(tmp_path, to_watch({"rules": ["WeightUpdateRatio"]}), save_interval=1)
    weights = np.zeros(4, np.float32)
    for _ in range(3):
        with hook.step():
            hook.save("fc.weight", weights, "weights")
        weights += 2.0
    hook.close()
    weight = create_trial(tmp_path).tensor("fc.weight")
    summaries = [weight.summary(step) for step in range(3)]
    assert [summary and summary.update_l1 for summary in summaries] == [None, 8.0, 8.0]


def test_no_update_of_what_a_step_saves_twice(tmp_path: Path) -> None:
    """It would be one against the same step."""
    hook = Hook(tmp_path, to_watch({"rules": ["WeightUpdateRatio"]}), save_interval=1)
    for step in range(3):
        with hook.step():
            for _ in range(1 + step % 2):
                hook.save("fc.weight", np.full(4, step, np.float32), "weights")
    hook.close()
    weight = create_trial(tmp_path).tensor("fc.weight")
    summaries = [weight.summary(step) for step in range(3)]
    assert [summary and summary.update_l1 for summary in summaries] == [None, None, 4.0]


def test_values_that_a_rule_wants_are_kept_if_they_are_small(tmp_path: Path) -> None:
    hook = Hook(tmp_path, to_watch({"rules": ["ClassImbalance"]}), save_interval=1)
    with hook.step():
        hook.save("few", np.arange(8), "labels")
        hook.save("many", np.zeros(1 << 20), "labels")
        hook.save("kept_from_it", np.arange(8), "labels", raw=False)
        hook.save("unwanted", np.arange(8), "weights")
    hook.close()
    (index,) = create_trial(tmp_path).index_files(0)
    assert [entry.name for entry in index.entries if entry.start is not None] == ["few"]


def test_a_rule_finds_its_collection_beside_the_one_named_at_saving(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = {
        "rules": [{"rule": "ExplodingTensor", "parameters": {"collection_names": "fc"}}],
        "capture": {"collections": {"fc": {"include_regex": "^fc"}}},
    }
    with Hook(tmp_path, to_watch(watch), save_interval=1) as hook, hook.step():
        hook.save("fc.weight", np.ones(3), "weights")
    assert "no tensor so far" not in caplog.text
