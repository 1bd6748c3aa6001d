from __future__ import annotations

import pytest
from tocsin.contracts import CONTRACTS, FORMER, Contract
from tocsin.model import Mode, Outcome, Role, Severity, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.broken_contract import BrokenContract

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION

PRICE = Contract("mine.price", Severity.CRITICAL, "a price is negative", "it is in cents")


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


def test_a_former_id_is_reported_with_the_text_of_today() -> None:
    _, verdict = BrokenContract().evaluate({}, step({"contract/kl_not_log/a.py:1": 1.0}))
    assert verdict.detail == f"a.py:1: {CONTRACTS[FORMER['kl_not_log']].text}"


@pytest.mark.parametrize(
    ("name", "contract", "text", "severity"),
    [
        ("mine.price", PRICE, "a.py:1: a price is negative; it is in cents", Severity.CRITICAL),
        ("mine.price", None, "a.py:1: contract mine.price is broken", Severity.WARNING),
        ("broadcast", PRICE, f"a.py:1: {CONTRACTS['broadcast'].text}", Severity.CRITICAL),
    ],
)
def test_a_contract_that_its_hook_describes(
    name: str, contract: Contract | None, text: str, severity: Severity
) -> None:
    tensor = Tensor(
        f"contract/{name}/a.py:1",
        "worker_0",
        TensorSummary(max=1.0),
        role=Role.CONTRACT,
        contract=contract,
    )
    found = Step(0, Mode.TRAIN, 0, 0.0, {"contracts": (tensor,), "skills": ()})
    _, verdict = BrokenContract().evaluate({}, found)
    assert verdict.detail.startswith(text)
    assert verdict.severity is severity


def test_the_most_severe_comes_first() -> None:
    names = ("gradients_not_cleared", "constant_input", "kl_div_input_not_log", "broadcast")
    _, verdict = BrokenContract().evaluate({}, step({f"contract/{n}/a:1": 1.0 for n in names}))
    assert verdict.tensor == "contract/broadcast/a:1"
    assert verdict.severity is Severity.CRITICAL
    says = [
        CONTRACTS[n].says for n in ("broadcast", "kl_div_input_not_log", "gradients_not_cleared")
    ]
    assert [verdict.detail.index(text) for text in says] == sorted(
        verdict.detail.index(text) for text in says
    )


def test_a_contract_of_several_workers_is_reported_once() -> None:
    both = [
        Tensor("contract/broadcast/a.py:1", worker, TensorSummary(max=1.0), role=Role.CONTRACT)
        for worker in ("worker_0", "worker_1")
    ]
    found = Step(0, Mode.TRAIN, 0, 0.0, {"contracts": tuple(both), "skills": ()})
    _, verdict = BrokenContract().evaluate({}, found)
    assert verdict.detail.count(CONTRACTS["broadcast"].says) == 1
