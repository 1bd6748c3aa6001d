"""The order of findings: which explains which, and what leads."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest
from tocsin.causes import Finding, causes_first, explains
from tocsin.contracts import CONTRACTS, FAMILIES, tensor_name
from tocsin.explanations import EXPLAINS, Explanation, explained_by
from tocsin.model import Severity
from tocsin.rules import rule_names

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
FACTS = {f"contract: {each.id}" for each in CONTRACTS.values() if each.severity is INFO}
KINDS = {*rule_names(), *(f"contract: {family}" for family in FAMILIES), *FACTS}


def finding(kind: str, severity: Severity = WARNING, step: int | None = 1) -> Finding:
    """A finding of a rule, of the first alarming contract of a family, or of one at info."""
    family = FAMILIES.get(key := kind.removeprefix("contract: "))
    if kind in FACTS:
        return Finding(kind, "BrokenContract", INFO, step, tensor_name(key, "train.py:3"))
    if family is None:
        return Finding(kind, kind, severity, step)
    key = next(each.id for each in family if each.severity is not INFO)
    return Finding(kind, "BrokenContract", severity, step, tensor_name(key, "train.py:3"))


def order(*findings: Finding) -> list[tuple[str, ...]]:
    """The names of the findings that lead, each followed by what it explains."""
    return [tuple(each.name for each in lead.findings) for lead in causes_first(findings)]


ARROWS = [
    pytest.param(each, cause, effect, id=f"{cause}-{effect}")
    for each in EXPLAINS
    for cause in each.causes
    for effect in each.effects
    if cause != effect
]


@pytest.mark.parametrize(("arrow", "cause", "effect"), ARROWS)
def test_the_cause_leads_and_what_it_explains_is_folded(
    arrow: Explanation, cause: str, effect: str
) -> None:
    assert {cause, effect} <= KINDS
    assert 3 <= len(arrow.reason.split()) <= 25
    assert order(finding(effect, CRITICAL, 5), finding(cause, WARNING, 5)) == [(cause, effect)]
    later = order(finding(effect, CRITICAL, 5), finding(cause, WARNING, 9))
    assert later == ([(effect,), (cause,)] if arrow.since else [(cause, effect)])


def test_nothing_explains_itself_by_way_of_others() -> None:
    graph = {kind: set(explained_by(kind)) for kind in KINDS}

    assert {*TopologicalSorter(graph).static_order()} == KINDS


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [finding("Overfit", step=40), finding("MemoryLeak", CRITICAL, 90)],
            [("MemoryLeak",), ("Overfit",)],
            id="severity before step",
        ),
        pytest.param(
            [finding("Overfit", step=40), finding("MemoryLeak", step=9)],
            [("MemoryLeak",), ("Overfit",)],
            id="the earlier one first",
        ),
        pytest.param(
            [finding("MemoryLeak", step=9), finding("NoSkill"), finding("NotNormalizedData", INFO)],
            [("NotNormalizedData", "NoSkill"), ("MemoryLeak",)],
            id="a likely cause leads by what it explains",
        ),
        pytest.param(
            [finding("TanhSaturation", INFO, 1), finding("Overfit", step=40)],
            [("Overfit",), ("TanhSaturation",)],
            id="info that explains nothing never leads",
        ),
        pytest.param(
            [
                finding("TanhSaturation", INFO, 1),
                finding("LearningRateTooLarge", step=30),
                finding("VanishingGradient", step=20),
            ],
            [("LearningRateTooLarge", "VanishingGradient", "TanhSaturation")],
            id="a rate explains saturation, which explains gradients",
        ),
        pytest.param(
            [
                finding("NotNormalizedData", INFO, 1),
                finding("contract: Losses", step=30),
                finding("NoSkill", step=20),
            ],
            [("contract: Losses", "NoSkill"), ("NotNormalizedData",)],
            id="an alarm goes before a guess at the cause",
        ),
        pytest.param(
            [finding("GradientExplosion", step=1563), finding("ExplodingTensor", CRITICAL, 1566)],
            [("GradientExplosion", "ExplodingTensor")],
            id="severe things may follow from others",
        ),
        pytest.param(
            [
                finding("LossDiverging", step=14),
                finding("ExplodingTensor", CRITICAL, 24),
                finding("LossWorse", step=26),
                finding("LossSpike", step=12),
            ],
            [("ExplodingTensor", "LossWorse"), ("LossDiverging", "LossSpike")],
            id="what began earlier is not explained, not even by way of others",
        ),
        pytest.param(
            [finding("VanishingGradient", step=50), finding("LossDiverging", step=140)],
            [("LossDiverging", "VanishingGradient")],
            id="a loss without bound explains gradients that seem to vanish beside others",
        ),
        pytest.param(
            [finding("VanishingGradient", step=50), finding("NoSkill", step=140)],
            [("VanishingGradient", "NoSkill")],
            id="gradients that vanish explain that nothing is learned",
        ),
        pytest.param(
            [finding("StalledTrainingRule", step=9), finding("ExplodingTensor", CRITICAL, 5)],
            [("ExplodingTensor",), ("StalledTrainingRule",)],
            id="time is not lost by NaN",
        ),
    ],
)
def test_order(findings: list[Finding], expected: list[tuple[str, ...]]) -> None:
    assert order(*findings) == expected
    assert order(*reversed(findings)) == expected


def test_a_likely_cause_is_called_so() -> None:
    likely = causes_first([finding("NotNormalizedData", INFO), finding("NoSkill", CRITICAL)])[0]
    alone = causes_first([finding("NotNormalizedData", INFO)])[0]

    assert (likely.likely, likely.alarms, likely.severity) == (True, True, CRITICAL)
    assert (alone.likely, alone.alarms, alone.severity) == (False, False, INFO)


def test_a_contract_at_info_states_a_fact_and_explains_nothing() -> None:
    fact = Finding(
        "BrokenContract", "BrokenContract", INFO, 1, tensor_name("labels_equal_inputs", "a.py:1")
    )

    assert not explains(fact, finding("NoSkill"))


def test_a_finding_without_a_step_may_explain_any() -> None:
    assert explains(finding("ExplodingTensor", step=None), finding("NoSkill"))


def test_each_kind_of_a_configuration_is_a_finding_of_its_own() -> None:
    two = [Finding("a", "NoSkill", step=1), Finding("b", "NoSkill", step=2)]

    assert order(*two) == [("a",), ("b",)]
