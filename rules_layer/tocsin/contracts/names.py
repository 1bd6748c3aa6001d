"""Names of the tensors that report contracts, and ids in patterns of such names."""

from __future__ import annotations

import re
from difflib import get_close_matches

from tocsin.contracts.contract import Contract
from tocsin.contracts.former import FORMER
from tocsin.contracts.registry import CONTRACTS

_PREFIX = "contract/"
_OWN = re.compile(r"[a-z0-9_]+(?:\\?\.[a-z0-9_]+)+")  # an id of a user's check has a dot
_WORD = re.compile(r"[a-z][a-z0-9_]{3,}")
_IDS = (*CONTRACTS, *FORMER)
_CLOSE = 0.8


class UnknownContract(ValueError):
    """No contract has that id; the message names the nearest one."""


def tensor_name(key: str, place: str) -> str:
    return f"{_PREFIX}{key}/{place}"


def id_and_place(name: str) -> tuple[str, str]:
    """Return the id and the line of the script in the name of a tensor; both may be empty."""
    key, _, place = name.partition("/")[2].partition("/")
    return key, place


def find(key: str) -> Contract | None:
    """Return the contract with that id, or with that former id."""
    return CONTRACTS.get(FORMER.get(key, key))


def get(key: str) -> Contract:
    """Return the contract with that id. Raises UnknownContract, also for a former id."""
    if key not in CONTRACTS:
        raise UnknownContract(fault(key))
    return CONTRACTS[key]


def fault(key: str) -> str:
    """Return the message about an id that no contract has."""
    near = get_close_matches(FORMER.get(key, key), CONTRACTS, n=1)
    hint = f"did you mean {near[0]}?" if near else "docs/contracts.md lists them"
    return f"no contract is called {key!r}: {hint}"


def spellings(name: str) -> tuple[str, ...]:
    """Return the names of a tensor: of one that reports a contract also those with its other
    ids."""
    if not name.startswith(_PREFIX):
        return (name,)
    key, _ = id_and_place(name)
    current = FORMER.get(key, key)
    others = (current, *(old for old, new in FORMER.items() if new == current))
    rest = name[len(_PREFIX) + len(key) :]
    return (name, *(f"{_PREFIX}{each}{rest}" for each in others if each != key))


def misspelt(pattern: str) -> str | None:
    """Return the first word of a pattern of names that is meant for an id, but part of none."""
    text = pattern.removeprefix("^")
    meant = text.startswith(_PREFIX)
    first = text.removeprefix(_PREFIX).partition("/")[0]
    for word in _WORD.findall(_OWN.sub("", first)):
        known = any(word in each for each in _IDS)
        if not known and (meant or get_close_matches(word, _IDS, n=1, cutoff=_CLOSE)):
            return str(word)
    return None
