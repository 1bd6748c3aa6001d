"""The contracts that hooks check: ids, severities and texts, for rules, pages and messages."""

from __future__ import annotations

from tocsin.contracts.contract import Contract
from tocsin.contracts.former import FORMER, RETIRED
from tocsin.contracts.names import (
    UnknownContract,
    fault,
    find,
    get,
    id_and_place,
    misspelt,
    spellings,
    tensor_name,
)
from tocsin.contracts.registry import CONTRACTS, FAMILIES
from tocsin.contracts.relations import SEVERAL_TIMES, SIGN_CONTRACTS, UNLESS

__all__ = [
    "CONTRACTS",
    "FAMILIES",
    "FORMER",
    "RETIRED",
    "SEVERAL_TIMES",
    "SIGN_CONTRACTS",
    "UNLESS",
    "Contract",
    "UnknownContract",
    "fault",
    "find",
    "get",
    "id_and_place",
    "misspelt",
    "spellings",
    "tensor_name",
]
