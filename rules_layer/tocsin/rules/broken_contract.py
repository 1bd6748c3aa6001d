from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import (
    HEALTHY,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    register,
    violation,
)
from tocsin.rules._contracts import CONTRACTS, Contract

_MOST_SEVERE_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@register
@dataclass(frozen=True)
class BrokenContract(Rule):
    """A call of the training script cannot mean what it says.

    The hook checks at the first steps what must hold whatever is trained: shapes in a loss, whether
    it gets logits or probabilities, labels and targets in range, which parameters the optimizer
    holds, whether gradients arrive and are cleared, train and eval mode. It saves a tensor for each
    contract that is broken, with the file and line. Fires at once, and names the most severe
    contract first; its severity is that of this contract. Where the hook compares losses with their
    labels and saves no such tensor, the contracts hold.

    Example: `mse_loss` of a prediction of shape (64, 1) and labels of shape (64).
    """

    severity: ClassVar[Severity] = Severity.CRITICAL
    causes: ClassVar[str] = "The detail of the alert says which call it is, and what follows."
    advice: ClassVar[str] = "Change the line that the detail names."

    def reads(self) -> Reads:
        return Reads(
            {
                "contracts": Read(roles=(Role.CONTRACT,), fields=("max",)),
                "skills": Read(roles=(Role.SKILL,), fields=("size",)),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [each for each in step.tensors["contracts"] if each.summary.max is not None]
        checked = known or [each for each in step.tensors["skills"] if each.summary.size]
        if not checked:
            return state, not_applicable(Reason.NO_TENSOR, "no contract was checked")
        broken = _by_severity(each for each in known if each.summary.max)
        if not broken:
            return state, HEALTHY
        worst = broken[0]
        texts = dict.fromkeys(map(_text, broken))
        found = violation(Reason.BROKEN, "; ".join(texts), worst, contracts=len(broken))
        return state, replace(found, severity=_contract(worst).severity)


def _name(tensor: Tensor) -> str:
    return tensor.name.partition("/")[2].partition("/")[0]


def _contract(tensor: Tensor) -> Contract:
    name = _name(tensor)
    says = f"the contract {name} of a newer hook is broken"
    return CONTRACTS.get(name) or Contract(Severity.WARNING, says, "", "")


def _by_severity(tensors: Iterable[Tensor]) -> list[Tensor]:
    names = list(CONTRACTS)

    def order(tensor: Tensor) -> tuple[int, int]:
        name = _name(tensor)
        at = names.index(name) if name in CONTRACTS else len(names)
        return _MOST_SEVERE_FIRST.index(_contract(tensor).severity), at

    return sorted(tensors, key=order)


def _text(tensor: Tensor) -> str:
    contract, place = _contract(tensor), tensor.name.split("/", 2)[2:]
    at = f"{place[0]}: " if place and place[0] else ""
    return at + "; ".join(filter(None, (contract.says, contract.cause, contract.advice)))
