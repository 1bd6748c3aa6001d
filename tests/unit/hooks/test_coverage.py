from __future__ import annotations

import pytest
from tocsin.watch import RuleConfig, Watch
from tocsin_hooks._coverage import described, unmatched
from tocsin_hooks._plan import Saved


def saved(*tensors: tuple[str, str]) -> list[Saved]:
    return [Saved(name, (collection,)) for name, collection in tensors]


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
            RuleConfig("VanishingGradient", include="^fc"),
            [("conv", "gradients")],
            ["VanishingGradient: it looks for role gradient"],
        ),
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
    assert unmatched(Watch(rules=(rule,)), saved(*tensors)) == expected


@pytest.mark.parametrize("watch", [None, Watch()])
def test_rules_that_nobody_named_are_not(watch: Watch | None) -> None:
    assert unmatched(watch, saved(("loss", "losses"))) == []


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ([], "nothing"),
        ([("a", "weights"), ("b", "losses"), ("c", "weights")], "1 in losses, 2 in weights"),
    ],
)
def test_what_is_captured_in_a_line(tensors: list[tuple[str, str]], expected: str) -> None:
    assert described(saved(*tensors)) == expected
