from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.evaluation import check, document
from tocsin.model import Mode, Reason, TensorSummary, Verdict
from tocsin.rules import Step, Tensor
from tocsin.tensors import open_storage
from tocsin.watch import to_watch

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, made, valued

XGBOOST = Path(__file__).parents[2] / "fixtures" / "smdebug" / "xgboost" / "run"


def tensor(column: str, value: Any, worker: str = "worker_0") -> Tensor:
    return valued(f"trees/{column}", value, worker)


def judged(*found: Tensor, profile: str = "sagemaker", **parameters: Any) -> Verdict:
    rule = made("TreeDepth", profile, **parameters)
    step = Step(0, Mode.GLOBAL, 0, 0.0, {"trees": found})
    state, verdict = rule.evaluate({}, step)
    assert state == {}
    return verdict


def branches(*edges: tuple[int, int, int], leaves: int = 0, tree: int = 0) -> tuple[Tensor, ...]:
    """ID, Yes and No of a tree, by its inner nodes."""
    inner = {node: children for node, *children in edges}
    nodes = sorted({*inner, *(child for _, *children in edges for child in children)} | {0})
    texts = [
        (f"{tree}-{node}", *(f"{tree}-{child}" for child in inner.get(node, ()))) for node in nodes
    ]
    yes, no = ([text[at] if len(text) == 3 else "nan" for text in texts] for at in (1, 2))
    return tensor("ID", [text[0] for text in texts]), tensor("Yes", yes), tensor("No", no)


CHAIN = tuple((2 * at, 2 * at + 1, 2 * at + 2) for at in range(6))  # 12 ids for 6 levels


@pytest.mark.parametrize(
    ("ids", "depth"),
    [([0], 0), ([0, 1, 2], 1), ([2], 1), ([3], 2), ([6], 2), ([7], 3), ([14], 3), ([15], 4),
     ([30], 4), ([31], 5), ([62], 5), ([0.0, 30.0, np.nan], 4), ([2**62], 62)],
)  # fmt: skip
def test_the_depth_of_the_largest_node(ids: list[float], depth: int) -> None:
    """30 is at depth 4: log2(30) alone would be above it."""
    assert judged(tensor("Node", ids), depth=depth).outcome is HEALTHY
    if depth:
        verdict = judged(tensor("Node", ids), depth=depth - 1)
        assert verdict.outcome is VIOLATION
        assert verdict.evidence["depth"] == depth


@pytest.mark.parametrize(
    ("found", "depth"),
    [
        (branches(), 0),
        (branches((0, 1, 2)), 1),
        (branches((0, 1, 2), (1, 3, 4), (2, 5, 6)), 2),
        (branches(*CHAIN), 6),
        ((*branches(*CHAIN), tensor("Node", np.arange(13))), 6),
        ((tensor("Node", np.arange(13)), *branches(*CHAIN)[:2]), 3),  # a column is missing
        ((tensor("Node", np.arange(13)), *branches()[:2], tensor("No", [])), 3),
        ((tensor("ID", ["0-0", "0-1", "1-0", "1-1"]), tensor("Yes", ["0-1", "nan", "1-1", "nan"]),
          tensor("No", ["0-1", "nan", "1-1", "nan"])), 1),  # two trees
        (branches((0, 1, 2), (2, 0, 1)), 0),  # no tree at all: it has no root
        (branches((0, 1, 2), (2, 2, 1)), 1),  # a loop ends
    ],
)  # fmt: skip
def test_branches_are_followed(found: tuple[Tensor, ...], depth: int) -> None:
    assert judged(*found, depth=depth).outcome is HEALTHY
    if depth:
        assert judged(*found, depth=depth - 0.5).outcome is VIOLATION


@pytest.mark.parametrize(
    "found",
    [
        (),
        (tensor("Node", []),),
        (tensor("Node", [np.nan]),),
        (tensor("Cover", [99.0]),),
        (tensor("ID", ["0-99"]),),
        (Tensor("trees/Node", "worker_0", TensorSummary()),),
        (Tensor("trees/ID", "worker_0", TensorSummary()),),
    ],
)
def test_without_nodes_there_is_nothing_to_judge(found: tuple[Tensor, ...]) -> None:
    assert judged(*found).outcome is NOT_APPLICABLE


def test_a_summary_of_the_nodes_is_enough() -> None:
    assert judged(Tensor("trees/Node", "worker_0", TensorSummary(max=31.0))).violation


def test_what_it_says_of_the_deepest_of_all_workers() -> None:
    verdict = judged(tensor("Node", [31]), tensor("Node", [64], "worker_1"))
    assert (verdict.reason, verdict.worker) == (Reason.ABOVE_THRESHOLD, "worker_1")
    assert verdict.detail == "a tree in trees/Node is 6 levels deep, more than 4"
    assert dict(verdict.evidence) == {"depth": 6, "threshold": 4.0}


def test_a_real_run() -> None:
    found = {}
    for depth in ("1", "2"):
        rule = {"rule": "TreeDepth", "parameters": {"depth": depth}}
        (found[depth],) = document(check(open_storage(XGBOOST), to_watch({"rules": [rule]}))[0])[
            "rules"
        ]
    assert found["2"]["RuleEvaluationStatus"] == "NoIssuesFound"
    assert found["1"]["FirstViolation"]["evidence"]["depth"] == 2
