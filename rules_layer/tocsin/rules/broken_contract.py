from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from tocsin.contracts import CONTRACTS, Contract, find, id_and_place
from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, not_applicable, violation

_MOST_SEVERE_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@register
@dataclass(frozen=True)
class BrokenContract(Rule):
    """A line of the training script breaks a contract that holds for every training.

    During the first steps, the hook checks shapes in a loss, logits and probabilities, the range of
    labels and targets, the parameters of the optimizer, gradients, and train and eval mode. It
    saves a tensor ``contract/<id>/<file:line>`` for each broken contract. Fires at once and reports
    the most severe contract first, with its severity. ``exclude: contract/<id>/`` switches one off.
    If the hook compares losses with their labels and saves no such tensor, no contract is broken.

    Example: `mse_loss` of a prediction of shape (64, 1) and labels of shape (64).
    """

    severity: ClassVar[Severity] = Severity.CRITICAL
    causes: ClassVar[str] = (
        "The detail of the alert names the line, what is wrong there, and the consequence."
    )
    advice: ClassVar[str] = "Change the line that the detail names, as the detail says."

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


def _contract(tensor: Tensor) -> Contract:
    """Return the contract of the registry, or the one that the hook describes: a newer one, or a
    check that a user wrote."""
    key, _ = id_and_place(tensor.name)
    says = f"contract {key} is broken; upgrade Tocsin to see what it means"
    return find(key) or tensor.contract or Contract(key, Severity.WARNING, says)


def _by_severity(tensors: Iterable[Tensor]) -> list[Tensor]:
    ids = list(CONTRACTS)

    def order(tensor: Tensor) -> tuple[int, int]:
        contract = _contract(tensor)
        at = ids.index(contract.id) if contract.id in CONTRACTS else len(ids)
        return _MOST_SEVERE_FIRST.index(contract.severity), at

    return sorted(tensors, key=order)


def _text(tensor: Tensor) -> str:
    _, place = id_and_place(tensor.name)
    return ": ".join(filter(None, (place, _contract(tensor).text)))
