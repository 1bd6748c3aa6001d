from __future__ import annotations

import logging
from types import MappingProxyType
from typing import Any

import pytest
from tocsin.model import Mode
from tocsin.watch import (
    BadWatch,
    Capture,
    CollectionConfig,
    SaveConfig,
    capture_from,
    plain_capture,
    to_capture,
)


def collection(name: str, **parameters: str) -> dict[str, Any]:
    return {"CollectionName": name, "CollectionParameters": parameters}


def test_everything_as_createtrainingjob_carries_it() -> None:
    hook = {
        "save_interval": "100",
        "train.save_interval": "50",
        "eval.save_steps": "1,2",
        "start_step": "5",
        "end_step": "900",
        "include_workers": "all",
        "reductions": "mean,abs_l2",
        "save_raw_tensor": "False",
        "save_shape": "true",
        "max_overhead": "0.1",
    }
    collections = [
        collection("gradients", reductions="std,l2_norm", save_raw_tensor="True"),
        collection(
            "mine", include_regex="relu{1,2},tanh", save_histogram="False", **{"eval.end_step": "9"}
        ),
    ]
    expected = Capture(
        save_interval=100,
        start_step=5,
        end_step=900,
        modes={Mode.TRAIN: SaveConfig(50), Mode.EVAL: SaveConfig(save_steps=(1, 2))},
        reductions="mean,abs_l2",
        save_raw_tensor=False,
        save_shape=True,
        include_workers="all",
        max_overhead=0.1,
        collections={
            "gradients": CollectionConfig(reductions="std,l2_norm", save_raw_tensor=True),
            "mine": CollectionConfig(
                "relu{1,2},tanh", save_histogram=False, modes={Mode.EVAL: SaveConfig(end_step=9)}
            ),
        },
    )
    assert capture_from(hook, collections) == expected
    assert capture_from(MappingProxyType(hook), tuple(collections)) == expected


@pytest.mark.parametrize("nothing", [({}, []), (None, None), ({}, None), (None, ())])
def test_what_is_left_out_is_as_smdebug_documents_it(nothing: Any) -> None:
    assert capture_from(*nothing) == Capture(save_interval=500, include_workers="one")
    assert capture_from(*nothing, save_interval=10).save_interval == 10


@pytest.mark.parametrize(
    ("hook", "parameters", "raw"),
    [
        ({}, {}, True),
        ({}, {"save_interval": "5"}, True),
        ({}, {"reductions": "mean"}, None),
        ({}, {"reductions": ""}, None),
        ({}, {"save_shape": "True"}, None),
        ({}, {"save_raw_tensor": "False"}, False),
        ({}, {"reductions": "mean", "save_raw_tensor": "True"}, True),
        ({"reductions": "mean"}, {}, None),
        ({"save_raw_tensor": "True"}, {}, None),  # the hook's holds
    ],
)
def test_values_are_kept_where_nothing_reduces_them(
    hook: dict[str, str], parameters: dict[str, str], raw: bool | None
) -> None:
    found = capture_from(hook, [collection("weights", **parameters)])
    assert found.collections["weights"].save_raw_tensor is raw


def test_a_collection_without_parameters() -> None:
    for parameters in ({}, {"CollectionParameters": None}, {"CollectionParameters": {}}):
        found = capture_from({}, [{"CollectionName": "losses", **parameters}])
        assert set(found.collections) == {"losses"}


def test_patterns_of_the_hook_are_those_of_the_collection_default() -> None:
    found = capture_from({"include_regex": "relu,tanh"}, [collection("default", include_regex="x")])
    assert found.collections["default"].include_regex == ("x", "relu", "tanh")
    assert found.collections["default"].save_raw_tensor
    assert set(capture_from({"include_regex": "relu"}, []).collections) == {"default"}


def test_save_all_saves_them_in_the_collection_all() -> None:
    found = capture_from({"save_all": "True"}, [collection("weights", reductions="mean")])
    assert found.save_all
    assert found.collections["all"] == CollectionConfig(save_raw_tensor=True)


def test_of_a_collection_named_twice_the_last_counts_and_patterns_are_added() -> None:
    found = capture_from(
        {},
        [
            collection("mine", save_interval="500", reductions="mean"),
            collection("mine", include_regex="a"),
            collection("mine", include_regex="b,c", save_interval="10"),
        ],
    )
    assert found.collections == {"mine": CollectionConfig(("a", "b", "c"), "mean", None, 10)}


def test_unknown_keys_are_skipped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "tocsin"):
        found = capture_from(
            {"dry_run": "True", "eval.reductions": "mean", "collections": "x"},
            [collection("weights", save_config="{}", **{"train.save_intervall": "5"})],
        )
    assert found == capture_from({}, [collection("weights")])
    assert [record.getMessage() for record in caplog.records] == [
        "HookParameters: unknown key 'dry_run' is skipped",
        "HookParameters: unknown key 'eval.reductions' is skipped",
        "HookParameters: unknown key 'collections' is skipped",
        "CollectionConfigurations['weights']: unknown key 'save_config' is skipped",
        "CollectionConfigurations['weights']: unknown key 'train.save_intervall' is skipped",
    ]


@pytest.mark.parametrize(
    ("hook", "collections", "message"),
    [
        (
            {"save_interval": "0"},
            [],
            "whole number >= 1 - at `HookParameters.save_interval`",
        ),
        ({"eval.end_step": "x"}, [], "got a text - at `HookParameters.eval.end_step`"),
        ({"include_regex": 3}, [], "got a whole number - at `HookParameters.include_regex`"),
        (["save_all"], [], "expected a mapping, got a list - at `HookParameters`"),
        ({}, {"weights": {}}, "expected a list, got a mapping - at `CollectionConfigurations`"),
        ({}, ["weights"], "CollectionConfigurations[0] has no CollectionName"),
        ({}, [collection("weights"), {}], "CollectionConfigurations[1] has no CollectionName"),
        ({}, [collection("")], "CollectionConfigurations[0] has no CollectionName"),
        (
            {},
            [{"CollectionName": "weights", "CollectionParameters": ["save_all"]}],
            "got a list - at `CollectionConfigurations['weights']`",
        ),
        (
            {},
            [collection("weights", reductions="l3")],
            "CollectionConfigurations['weights'].reductions: 'l3' is not a reduction",
        ),
    ],
)
def test_what_cannot_be_used(hook: Any, collections: Any, message: str) -> None:
    with pytest.raises(BadWatch) as caught:
        capture_from(hook, collections)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("parameters", [{"save_interval": "5"}, {"include_regex": ""}, {}])
def test_a_collection_without_patterns_waits_for_what_is_saved_to_it(
    caplog: pytest.LogCaptureFixture, parameters: dict[str, str]
) -> None:
    found = capture_from({}, [collection("mine", **parameters), collection("losses")])
    assert list(found.collections) == ["mine", "losses"]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("CollectionConfigurations: 'mine' has no include_regex")


def test_it_can_stand_in_a_watch_file() -> None:
    found = capture_from(
        {"save_all": "true", "include_regex": "a,b(c,d)"},
        [collection("gradients", **{"train.save_interval": "5", "reductions": "abs_l1_norm"})],
    )
    assert to_capture(plain_capture(found)) == found
