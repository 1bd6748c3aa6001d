from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.model import Mode
from tocsin.watch import Capture, RuleConfig, Watch
from tocsin_hooks import Hook
from tocsin_hooks.coverage import LossCoverage, described, unmatched
from tocsin_hooks.plan import Saved
from tocsin_hooks.settings import CaptureSettings
from tocsin_hooks.step import CapturedStep


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
    assert unmatched(CaptureSettings(Capture(), Watch(rules=(rule,))), saved(*tensors)) == expected


@pytest.mark.parametrize("watch", [None, Watch()])
def test_rules_that_nobody_named_are_not(watch: Watch | None) -> None:
    assert unmatched(CaptureSettings(Capture(), watch), saved(("loss", "losses"))) == []


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ([], "nothing"),
        ([("a", "weights"), ("b", "losses"), ("c", "weights")], "1 in losses, 2 in weights"),
    ],
)
def test_what_is_captured_in_a_line(tensors: list[tuple[str, str]], expected: str) -> None:
    assert described(saved(*tensors)) == expected


GRADIENT, WEIGHT = ("gradient/fc.weight", "gradients"), ("fc.weight", "weights")
LOSS, METRIC = ("loss", "losses"), ("accuracy", "metrics")


@pytest.mark.parametrize(
    ("steps", "after"),
    [
        ([], None),
        ([[LOSS, GRADIENT]] * 5, None),
        ([[GRADIENT]] * 2 + [[GRADIENT, LOSS]], None),  # in time
        ([[GRADIENT]] * 5, 3),
        ([[WEIGHT], [GRADIENT], [WEIGHT], [GRADIENT, METRIC], [GRADIENT], [LOSS]], 5),
        ([[WEIGHT]] * 2, "end"),
        ([[METRIC]], "end"),
        ([[("CrossEntropyLoss_output_0", "mine")]], None),  # a loss by its name
    ],
)
def test_a_run_without_a_loss_is_warned_of_once(
    steps: list[list[tuple[str, str]]], after: int | str | None, caplog: pytest.LogCaptureFixture
) -> None:
    coverage, said = LossCoverage(), None
    for number, tensors in enumerate(steps, 1):
        found = {each.name: each for each in saved(*tensors)}
        coverage.add(CapturedStep(number, Mode.TRAIN, number, saved=found))
        said = said or (number if caplog.records else None)
    coverage.warn()
    said = said or ("end" if caplog.records else None)
    coverage.warn()
    assert said == after
    assert [record.levelname for record in caplog.records] == ["WARNING"] * (after is not None)
    assert all("record_loss" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("remedy", "expected"),
    [(None, "name it by hook.record_loss(loss)"), ("give it a name", "judge it: give it a name")],
)
def test_the_warning_says_what_to_do(
    remedy: str | None, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    coverage = LossCoverage(remedy)
    coverage.add(CapturedStep(0, Mode.TRAIN, 0))
    coverage.warn()
    assert expected in caplog.text


def test_what_is_only_evaluated_needs_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    coverage = LossCoverage()
    coverage.add(CapturedStep(0, Mode.EVAL, 0))
    coverage.warn()
    assert not caplog.records


@pytest.mark.parametrize("loss", [False, True])
def test_a_hook_warns_of_it(loss: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Hook(tmp_path / "run", save_interval=1) as hook:
        for _ in range(4):
            with hook.step():
                hook.save("fc.weight", [1.0, 2.0], collection="weights")
                if loss:
                    assert hook.record_loss(0.5) == 0.5
    assert ("no loss was captured" in caplog.text) is not loss
