from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.rules import _registry
from tocsin.watch import (
    BadWatch,
    Capture,
    CollectionConfig,
    RuleConfig,
    SaveConfig,
    Watch,
    encode_watch,
    parse_watch,
)
from tocsin_hooks.settings import Interval, given_watch, settings

TRAIN, EVAL = Mode.TRAIN, Mode.EVAL
WATCH = Watch(capture=Capture(save_interval=4))
BY_MODE = Watch(capture=Capture(save_interval=4, modes={EVAL: SaveConfig(2)}))


@pytest.mark.parametrize(
    ("watch", "interval", "train", "evaluation"),
    [
        (None, None, 10, 10),
        (None, 3, 3, 3),
        (None, {TRAIN: 5, EVAL: 1}, 5, 1),
        (None, {EVAL: 1}, 10, 1),
        (None, {"EVAL": 1}, 10, 1),
        (WATCH, None, 4, 4),
        (WATCH, 7, 7, 7),
        (WATCH, {EVAL: 1}, 4, 1),
        (BY_MODE, None, 4, 2),
        (BY_MODE, 7, 7, 7),
        (BY_MODE, {TRAIN: 3}, 3, 2),
    ],
)
def test_arguments_win_over_the_watch_file_and_that_over_the_default(
    watch: Watch | None, interval: Interval | None, train: int, evaluation: int
) -> None:
    found = settings(watch, interval)
    assert (found.intervals[TRAIN], found.intervals[EVAL]) == (train, evaluation)
    assert watch is None or (found.watch and found.capture == found.watch.capture)
    assert (found.watch is None) == (watch is None)


@pytest.mark.parametrize("interval", [0, -1, {TRAIN: 0}, {"TRIAN": 5}])
def test_an_interval_that_cannot_be_is_refused(interval: Interval) -> None:
    with pytest.raises(ValueError, match=r"at least 1|is not a mode"):
        settings(None, interval)


def test_a_pattern_that_does_not_compile_is_told_at_the_start() -> None:
    broken = Watch(capture=Capture(collections={"mine": CollectionConfig(include_regex="(")}))
    with pytest.raises(ValueError, match="regular expression"):
        settings(broken, None)


def test_a_watch_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text("capture: {save_interval: 2, collections: {weights: {save_raw_tensor: true}}}")
    found = settings(given_watch(file), None)
    assert found.intervals[TRAIN] == 2
    assert found.raw(("weights",))
    assert not found.raw(("biases",))


def test_a_rule_of_an_installed_package_says_what_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "eggs_rules.py").write_text(
        "from dataclasses import dataclass\n"
        "from tocsin.rules import HEALTHY, Reads, Rule, register\n"
        "@register\n@dataclass(frozen=True)\nclass Eggs(Rule):\n"
        '    """There are eggs."""\n'
        "    def reads(self): return Reads({})\n"
        "    def evaluate(self, state, step): return state, HEALTHY\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    found = [EntryPoint("eggs", "eggs_rules", "tocsin.rules")]
    monkeypatch.setattr(_registry, "entry_points", lambda *, group: found)
    try:
        given_watch(Watch(rules=(RuleConfig("Eggs"),)))
        assert caplog.messages == []
        found[:] = [EntryPoint("ham", "no_such_module", "tocsin.rules")]
        given_watch(Watch(rules=(RuleConfig("Ham"),)))
    finally:
        sys.modules.pop("eggs_rules", None)
    unloaded, unknown = caplog.messages
    assert unloaded.endswith("not known to the hook: No module named 'no_such_module'")
    assert unknown == "unknown rule 'Ham': `tocsin rules` lists them"


@pytest.mark.parametrize(
    ("name", "collection", "expected"),
    [
        ("fc1.weight", None, ("fc", "all_weights")),
        ("fc1.weight", "weights", ("weights", "fc", "all_weights")),
        ("fc1.weight", "fc", ("fc", "all_weights")),
        ("conv.bias", None, ("default",)),
        ("conv.bias", "biases", ("biases",)),
    ],
)
def test_collections_are_named_or_found_by_pattern(
    name: str, collection: str | None, expected: tuple[str, ...]
) -> None:
    configured = {
        "fc": CollectionConfig(include_regex="^fc"),
        "all_weights": CollectionConfig(include_regex=("weight$", "kernel$")),
    }
    found = settings(Watch(capture=Capture(collections=configured)), None)
    assert found.collections_of(name, collection) == expected


def configured(**collections: CollectionConfig) -> Watch:
    return Watch(capture=Capture(collections=collections))


@pytest.mark.parametrize(
    ("name", "collection", "expected"),
    [
        ("Net_fc.weight", "weights", ("weights",)),
        ("Net_fc.weight", None, ("weights",)),  # by smdebug's pattern
        ("dense/kernel:0", None, ("weights",)),  # by its role
        ("gradient/Net_fc.weight", None, ("default",)),
        ("Net_weighted_output_0", "outputs", ("outputs",)),  # a built-in one is told already
        ("fc.weight", "mine", ("mine", "weights")),
        ("fc.weight", ("mine", "outputs"), ("mine", "outputs")),
        ("fc.weight", (), ("weights",)),
    ],
)
def test_a_built_in_collection_without_patterns_knows_its_tensors(
    name: str, collection: str | tuple[str, ...] | None, expected: tuple[str, ...]
) -> None:
    found = settings(configured(weights=CollectionConfig(save_raw_tensor=True)), None)
    assert found.collections_of(name, collection) == expected


def test_patterns_of_its_own_take_the_place_of_the_documented_ones() -> None:
    found = settings(configured(weights=CollectionConfig("^fc")), None)
    assert found.collections_of("fc.kernel", None) == ("weights",)
    assert found.collections_of("conv.weight", None) == ("default",)
    assert found.collections_of("fc.kernel", "outputs") == ("outputs", "weights")


@pytest.mark.parametrize(
    "capture", [Capture(save_all=True), configured(all=CollectionConfig()).capture]
)
def test_all_is_every_tensor(capture: Capture) -> None:
    found = settings(None, None, capture)
    assert found.collections_of("whatever", None) == ("all",)
    assert found.collections_of("fc.weight", "weights") == ("weights", "all")
    assert found.asked(("weights", "all"))


def test_what_is_configured_is_asked_for() -> None:
    found = settings(configured(weights=CollectionConfig(), default=CollectionConfig()), None)
    assert found.asked(("outputs", "weights"))
    assert not found.asked(("outputs",))
    assert not found.asked(found.collections_of("whatever", None))
    assert not settings(None, None).asked(("weights", "default"))


def test_patterns_of_default_do_not_ask_for_what_they_do_not_match() -> None:
    found = settings(configured(default=CollectionConfig("relu")), None)
    assert found.collections_of("Net_relu_1", None) == ("default",)
    assert found.asked(("default",))
    assert found.collections_of("Net_fc", None) == ("other",)
    assert not found.asked(("other",))


REDUCING = Capture(
    reductions="mean,abs_l2_norm",
    save_raw_tensor=False,
    collections={
        "weights": CollectionConfig(reductions=("l1", "min"), save_raw_tensor=True),
        "biases": CollectionConfig(reductions="", save_shape=True),
        "gradients": CollectionConfig(save_interval=3),
        "mine": CollectionConfig("x", save_shape=False),
    },
)


@pytest.mark.parametrize(
    ("collections", "raw", "reductions", "shape"),
    [
        (("weights",), True, ("min", "l1"), False),
        (("biases",), False, (), True),
        (("gradients",), False, ("mean", "abs_l2"), False),
        (("outputs",), False, ("mean", "abs_l2"), False),
        (("weights", "gradients"), True, ("min", "mean", "l1", "abs_l2"), False),
        (("biases", "mine"), False, ("mean", "abs_l2"), True),
        (("losses",), False, (), False),
        (("metrics", "weights"), True, (), False),
    ],
)
def test_the_form_is_the_collections_or_else_the_captures(
    collections: tuple[str, ...], raw: bool | None, reductions: tuple[str, ...], shape: bool
) -> None:
    found = settings(None, None, REDUCING)
    assert found.raw(collections) is raw
    assert found.reductions(collections) == reductions
    assert found.shape(collections) is shape


def test_nothing_said_of_the_form() -> None:
    found = settings(None, None)
    assert found.raw(("weights",)) is None
    assert found.reductions(("weights",)) == ()
    assert not found.shape(("weights",))


def test_the_argument_takes_the_place_of_what_the_watch_file_says() -> None:
    own = Capture(save_all=True, include_workers="one", max_overhead=0.5)
    found = settings(BY_MODE, None, own)
    assert (found.intervals[TRAIN], found.intervals[EVAL]) == (10, 10)
    assert (found.include_workers, found.max_overhead) == ("one", 0.5)
    assert found.watch is not None
    assert found.watch.capture == found.capture
    assert (settings(BY_MODE, None).include_workers, settings(None, None).max_overhead) == (
        "all",
        0.02,
    )


@pytest.mark.parametrize("interval", [None, 7, {EVAL: 1}])
def test_the_effective_watch_file_asks_for_the_same(interval: Interval | None) -> None:
    first = settings(Watch(capture=REDUCING), interval, None)
    assert first.watch is not None
    assert settings(parse_watch(encode_watch(first.watch)), None) == first


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reductions": "l3"}, "capture.reductions: 'l3' is not a reduction"),
        ({"save_steps": (-1,)}, "at `capture.save_steps"),
        ({"modes": {EVAL: SaveConfig(0)}}, "`capture.eval.save_interval`"),
        ({"max_overhead": 0.0}, "`capture.max_overhead`"),
        ({"include_workers": "some"}, "`capture.include_workers`"),
    ],
)
def test_a_capture_made_in_python_is_checked_too(fields: Mapping[str, Any], message: str) -> None:
    with pytest.raises(BadWatch, match=message):
        settings(None, None, Capture(**fields))


@pytest.mark.parametrize("interval", [np.int64(3), {"TRAIN": np.int32(3)}])
def test_an_interval_may_be_numpys(interval: Any) -> None:
    assert settings(None, interval).intervals[Mode.TRAIN] == 3
