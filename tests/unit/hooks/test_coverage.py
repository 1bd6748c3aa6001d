from __future__ import annotations

import pytest
from tocsin.model import Mode
from tocsin.watch import RuleConfig, Watch
from tocsin_hooks._capture import capture
from tocsin_hooks._coverage import unmatched
from tocsin_hooks._uploader import CapturedStep
from tocsin_hooks._wishes import Saved


def step(*tensors: tuple[str, str]) -> CapturedStep:
    captured = CapturedStep(0, Mode.TRAIN, 0)
    for name, collection in tensors:
        captured.tensors[name] = capture(Saved(name, (collection,)), 1.0)
        captured.members.setdefault(collection, set()).add(name)
    return captured


@pytest.mark.parametrize(
    ("rule", "tensors", "expected"),
    [
        (RuleConfig("VanishingGradient"), [("g", "gradients")], []),
        (
            RuleConfig("VanishingGradient"),
            [("loss", "losses")],
            ["VanishingGradient: it looks for role gradient"],
        ),
        (RuleConfig("ExplodingTensor"), [("anything", "mine")], []),
        (
            RuleConfig("ExplodingTensor", name="mine", parameters={"collection_names": "mine"}),
            [("anything", "other")],
            ["mine: it looks for collection mine"],
        ),
        (
            RuleConfig("ExplodingTensor", parameters={"collection_names": "mine"}),
            [("anything", "mine")],
            [],
        ),
        (
            RuleConfig("ExplodingTensor", parameters={"tensor_regex": "^fc"}),
            [("conv", "mine")],
            ["ExplodingTensor: it looks for name matching '^fc'"],
        ),
        (RuleConfig("ExplodingTensor", parameters={"tensor_regex": "^fc"}), [("fc1", "x")], []),
    ],
)
def test_rules_without_a_tensor_are_named(
    rule: RuleConfig, tensors: list[tuple[str, str]], expected: list[str]
) -> None:
    assert unmatched(Watch(rules=(rule,)), step(*tensors)) == expected


@pytest.mark.parametrize("watch", [None, Watch()])
def test_rules_that_nobody_named_are_not(watch: Watch | None) -> None:
    assert unmatched(watch, step(("loss", "losses"))) == []
