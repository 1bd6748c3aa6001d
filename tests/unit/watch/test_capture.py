from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import Mode
from tocsin.watch import (
    BadWatch,
    Capture,
    CollectionConfig,
    SaveConfig,
    Watch,
    encode_watch,
    parse_watch,
    patterns,
    plain_capture,
    reductions,
    to_capture,
    to_watch,
)

FULL = b"""\
capture:
  save_interval: 100
  save_interval_seconds: 30
  start_step: 5
  end_step: 900
  save_steps: [1, 2]
  train.save_interval: 50
  eval.save_interval: 1
  eval.end_step: 10
  predict.save_steps: "3, 4"
  global.start_step: 7
  reductions: mean
  save_raw_tensor: false
  save_shape: true
  save_all: true
  include_workers: one
  max_overhead: 0.1
  collections:
    weights: {include_regex: "fc.*weight", reductions: "mean,l2_norm"}
    mine:
      include_regex: [a, b]
      reductions: [abs_max, median]
      save_raw_tensor: "True"
      save_shape: "false"
      save_histogram: "True"
      save_steps: 7
      eval.save_interval: "2"
"""

FULL_CAPTURE = Capture(
    save_interval=100,
    save_interval_seconds=30.0,
    start_step=5,
    end_step=900,
    save_steps=(1, 2),
    modes={
        Mode.TRAIN: SaveConfig(50),
        Mode.EVAL: SaveConfig(1, end_step=10),
        Mode.PREDICT: SaveConfig(save_steps=(3, 4)),
        Mode.GLOBAL: SaveConfig(start_step=7),
    },
    reductions="mean",
    save_raw_tensor=False,
    save_shape=True,
    save_all=True,
    include_workers="one",
    max_overhead=0.1,
    collections={
        "weights": CollectionConfig("fc.*weight", "mean,l2_norm"),
        "mine": CollectionConfig(
            ("a", "b"),
            ("abs_max", "median"),
            save_raw_tensor=True,
            save_shape=False,
            save_histogram=True,
            save_steps=(7,),
            modes={Mode.EVAL: SaveConfig(2)},
        ),
    },
)


def test_everything_there_is() -> None:
    assert parse_watch(FULL, yaml=True).capture == FULL_CAPTURE


@pytest.mark.parametrize(
    "capture",
    [
        Capture(),
        FULL_CAPTURE,
        Capture(save_steps=(), reductions=()),  # none, which is not the same as not said
        Capture(collections={"weights": CollectionConfig(reductions="")}),
        Capture(collections={"weights": CollectionConfig(quantiles=(0.05, 0.95))}),
    ],
)
def test_written_and_read_again(capture: Capture) -> None:
    watch = Watch(capture=capture)
    stored = encode_watch(watch)
    assert parse_watch(stored) == watch
    assert b"modes" not in stored
    assert to_capture(plain_capture(capture)) == capture


def test_written_as_people_write_it() -> None:
    written = plain_capture(FULL_CAPTURE)
    assert written["eval.save_interval"] == 1
    assert written["global.start_step"] == 7
    assert written["collections"]["mine"]["eval.save_interval"] == 2
    assert written["collections"]["weights"] == {
        "include_regex": "fc.*weight",
        "reductions": "mean,l2_norm",
    }
    assert plain_capture(Capture()) == {}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"save_interval": None, "eval.save_interval": None}, Capture()),
        ({"save_interval": "100"}, Capture(100)),
        ({"save_all": "True"}, Capture(save_all=True)),
        ({"save_all": "false"}, Capture()),
        ({"save_raw_tensor": "FALSE"}, Capture(save_raw_tensor=False)),
        ({"max_overhead": "0.05"}, Capture(max_overhead=0.05)),
        ({"save_steps": "1, 2 ,3"}, Capture(save_steps=(1, 2, 3))),
        ({"save_steps": ["1", 2]}, Capture(save_steps=(1, 2))),
        ({"save_steps": ""}, Capture(save_steps=())),
        ({"save_steps": 4}, Capture(save_steps=(4,))),
        ({"end_step": 0}, Capture(end_step=0)),
    ],
)
def test_numbers_and_booleans_may_be_strings(content: Any, expected: Capture) -> None:
    assert to_capture(content) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"save_interval": 0}, "expected a whole number >= 1 - at `capture.save_interval`"),
        ({"save_interval": "ten"}, "got a text - at `capture.save_interval`"),
        ({"save_interval_seconds": 0}, "expected a number > 0.0 - at `capture.save_inter"),
        ({"start_step": -1}, "expected a whole number >= 0 - at `capture.start_step`"),
        ({"save_steps": [3, -1]}, "expected a whole number >= 0 - at `capture.save_steps[1]`"),
        ({"save_steps": "1,x"}, "expected a whole number, got a text - at `capture.save_steps[1]`"),
        (
            {"save_steps": True},
            "got true or false - at `capture.save_steps[0]`",
        ),
        (
            {"eval.save_interval": 0},
            "whole number >= 1 - at `capture.eval.save_interval`",
        ),
        ({"eval.save_all": True}, "capture: unknown key 'eval.save_all': known are collections, "),
        ({"test.save_interval": 1}, "capture: unknown key 'test.save_interval'"),
        ({"modes": {}}, "capture: unknown key 'modes'"),
        ({"save_all": "perhaps"}, "expected true or false, got a text - at `capture.save_all`"),
        ({"include_workers": "two"}, "invalid enum value 'two' - at `capture.include_workers`"),
        ({"max_overhead": 2}, "expected a number <= 1.0 - at `capture.max_overhead`"),
        (
            {"reductions": "mean,average"},
            "capture.reductions: 'average' is not a reduction: there ar",
        ),
        ({"reductions": "mean_norm"}, "'mean_norm' is not a reduction"),
        ({"collections": None}, "got nothing - at `capture.collections`"),
        (
            {"collections": {"w": {"eval.start_step": "x"}}},
            "got a text - at `capture.collections['w'].eval.start_step`",
        ),
        (
            {"collections": {"w": {"reductions": ["l3"]}}},
            "capture.collections['w'].reductions: 'l3' is not a reduction",
        ),
        (
            {"collections": {"w": {"quantiles": "0.5,95"}}},
            "capture.collections['w'].quantiles: '95' is not a quantile: it must be",
        ),
        ({"collections": {"w": {"quantiles": "half"}}}, "'half' is not a quantile"),
        ({"quantiles": "0.5"}, "capture: unknown key 'quantiles'"),
        ({"collections": {"w": {"save_all": True}}}, "capture.collections['w']: unknown key 'sa"),
    ],
)
def test_what_is_wrong_and_where(content: Any, message: str) -> None:
    with pytest.raises(BadWatch) as caught:
        to_watch({"capture": content})
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        ("", ()),
        ((), ()),
        ("fc.*weight", ("fc.*weight",)),
        ("relu, tanh ,,", ("relu", "tanh")),
        (("a,b", " c"), ("a,b", " c")),
        ("fc.{1,3}weight,bias", ("fc.{1,3}weight", "bias")),
        ("fc{,3},b{2,}", ("fc{,3}", "b{2,}")),
        ("a{b,c}", ("a{b", "c}")),  # no count
        ("^(relu|a,b),c", ("^(relu|a,b)", "c")),
        ("(?:a(b,c),d),e", ("(?:a(b,c),d)", "e")),
        ("[a,b]+,c", ("[a,b]+", "c")),
        ("[],],c", ("[],]", "c")),
        ("[^],],c", ("[^],]", "c")),
        ("[a[],b", ("[a[]", "b")),
        (r"[\],],b", (r"[\],]", "b")),
        (r"a\,b,c", (r"a\,b", "c")),
        (r"a\(,b\)", (r"a\(", r"b\)")),
        ("[(],b", ("[(]", "b")),
        ("a),b", ("a)", "b")),
        ("(a,b", ("(a,b",)),  # broken: reported as a whole
    ],
)
def test_a_comma_inside_of_a_pattern_does_not_split_it(
    regex: str | tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert patterns(CollectionConfig(regex)) == expected


@given(st.text(alphabet="ab,()[]{}1^\\ ", max_size=30))
def test_splitting_loses_nothing_but_commas_and_spaces(text: str) -> None:
    parts = patterns(CollectionConfig(text))
    kept = str.maketrans("", "", ", ")
    assert "".join(parts).translate(kept) == text.translate(kept)
    assert all(patterns(CollectionConfig(part)) == (part,) for part in parts)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("", ()),
        ((), ()),
        ("mean", ("mean",)),
        ("l2_norm, min ,abs_l1_norm,", ("min", "l2", "abs_l1")),
        (("abs_l1", "l1", "l1_norm"), ("l1", "abs_l1")),
        ("abs_median,median,prod", ("median", "prod", "abs_median")),
    ],
)
def test_reductions_as_they_stand_in_names(
    listed: str | tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert reductions(listed) == expected
