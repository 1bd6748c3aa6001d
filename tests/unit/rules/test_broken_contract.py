from __future__ import annotations

import pytest
from tocsin.model import Mode, Outcome, Role, Severity, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules._contracts import CONTRACTS
from tocsin.rules.broken_contract import BrokenContract

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION


def step(contracts: dict[str, float | None], compared: int = 0, mode: Mode = Mode.TRAIN) -> Step:
    broken = tuple(
        Tensor(name, "worker_0", TensorSummary(size=1, max=value), role=Role.CONTRACT)
        for name, value in contracts.items()
    )
    skills = tuple(
        Tensor(f"site{at}/skill", "worker_0", TensorSummary(size=4), role=Role.SKILL)
        for at in range(compared)
    )
    return Step(3, mode, 3, 0.0, {"contracts": broken, "skills": skills})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (step({}), NOT_APPLICABLE),
        (step({}, compared=1), HEALTHY),
        (step({"contract/broadcast/a.py:1": 1.0}), VIOLATION),
        (step({"contract/broadcast/a.py:1": 1.0}, mode=Mode.EVAL), VIOLATION),
        (step({"contract/broadcast/a.py:1": 0.0}), HEALTHY),
        (step({"contract/broadcast/a.py:1": None}), NOT_APPLICABLE),
        (step({"contract/broadcast": 1.0}), VIOLATION),  # without a place
        (step({"contract/of_a_later_version/a.py:1": 1.0}), VIOLATION),
    ],
)
def test_one_step(found: Step, expected: Outcome) -> None:
    assert BrokenContract().evaluate({}, found)[1].outcome is expected


@pytest.mark.parametrize("name", CONTRACTS)
def test_it_says_where_what_and_how_severe(name: str) -> None:
    tensor = f"contract/{name}/src/my model.py:31"
    _, verdict = BrokenContract().evaluate({}, step({tensor: 1.0}))
    assert verdict.detail.startswith(f"src/my model.py:31: {CONTRACTS[name].says}; ")
    assert (verdict.tensor, verdict.severity) == (tensor, CONTRACTS[name].severity)


def test_the_most_severe_comes_first() -> None:
    names = ("gradients_kept", "constant_input", "kl_not_log", "broadcast")
    _, verdict = BrokenContract().evaluate({}, step({f"contract/{n}/a:1": 1.0 for n in names}))
    assert verdict.tensor == "contract/broadcast/a:1"
    assert verdict.severity is Severity.CRITICAL
    says = [CONTRACTS[n].says for n in ("broadcast", "kl_not_log", "gradients_kept")]
    assert [verdict.detail.index(text) for text in says] == sorted(
        verdict.detail.index(text) for text in says
    )


def test_several_workers_are_told_once() -> None:
    both = [
        Tensor("contract/broadcast/a.py:1", worker, TensorSummary(max=1.0), role=Role.CONTRACT)
        for worker in ("worker_0", "worker_1")
    ]
    found = Step(0, Mode.TRAIN, 0, 0.0, {"contracts": tuple(both), "skills": ()})
    _, verdict = BrokenContract().evaluate({}, found)
    assert verdict.detail.count(CONTRACTS["broadcast"].says) == 1
