"""The registry of contracts, held against the hooks that report them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tocsin.contracts import (
    CONTRACTS,
    FAMILIES,
    FORMER,
    RETIRED,
    UnknownContract,
    find,
    get,
    misspelt,
    spellings,
)

HOOKS = Path(__file__).parents[2] / "hooks" / "tocsin_hooks"
REPORTS = {"_broken", "_count", "_found", "breaks", "contract_name", "count"}
REPORTS |= {"save_contract", "save_contracts"}


def trees() -> Iterator[ast.AST]:
    return (ast.parse(file.read_text()) for file in sorted(HOOKS.rglob("*.py")))


def texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def reported(tree: ast.AST) -> Iterator[str]:
    """Ids that are yielded by a function of broken contracts, or given to what reports them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and "broken" in node.name:
            yields = (each for each in ast.walk(node) if isinstance(each, ast.Yield))
            yield from (text for each in yields for text in texts(each))
        elif isinstance(node, ast.Call) and node.args:
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            if name in REPORTS:
                yield from (text for text in texts(node.args[0]) if text.isidentifier())


def test_hooks_report_only_contracts_of_the_registry() -> None:
    found = {each for tree in trees() for each in reported(tree)}
    assert len(found) > 60
    assert found <= set(CONTRACTS)


def test_each_contract_of_the_registry_is_reported_by_a_hook() -> None:
    known = {text for tree in trees() for text in texts(tree)}
    assert set(CONTRACTS) - RETIRED == set(CONTRACTS) & known
    assert set(CONTRACTS) >= RETIRED
    assert known.isdisjoint(FORMER)


def test_ids_are_unique_words() -> None:
    assert len(CONTRACTS) == sum(map(len, FAMILIES.values()))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", each) for each in (*CONTRACTS, *FORMER))
    assert set(FORMER).isdisjoint(CONTRACTS)
    assert set(FORMER.values()) <= set(CONTRACTS)


@pytest.mark.parametrize("key", CONTRACTS)
def test_texts_are_short_clauses(key: str) -> None:
    contract = CONTRACTS[key]
    for text in (contract.says, contract.cause, contract.advice):
        assert 0 < len(text.split()) <= 25
        assert not text.endswith(".")


def test_a_former_id_is_read_and_not_written() -> None:
    assert find("never_updated") is CONTRACTS["optimizer_step_missing"]
    with pytest.raises(UnknownContract, match="did you mean optimizer_step_missing"):
        get("never_updated")


@pytest.mark.parametrize(
    ("key", "hint"),
    [("softmx_twice", "did you mean softmax_twice?"), ("qqqq", "docs/contracts.md lists them")],
)
def test_an_unknown_id_is_named_with_the_nearest_one(key: str, hint: str) -> None:
    assert find(key) is None
    with pytest.raises(UnknownContract, match=re.escape(f"called {key!r}: {hint}")):
        get(key)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("contract/optimizer_step_missing/a.py:1", ["contract/never_updated/a.py:1"]),
        ("contract/never_updated/a.py:1", ["contract/optimizer_step_missing/a.py:1"]),
        ("contract/cut_off/cut_off.py:1", ["contract/part_detached/cut_off.py:1"]),
        ("contract/broadcast/a.py:1", []),
        ("contract/mine.price/a.py:1", []),
        ("contract/never_updated", ["contract/optimizer_step_missing"]),
        ("never_updated/weight", []),
    ],
)
def test_spellings(name: str, others: list[str]) -> None:
    assert [*spellings(name)] == [name, *others]


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("contract/softmax_twice/", None),
        ("^contract/softmax", None),  # several
        ("contract/never_updated/train.py:31", None),
        ("contract/(broadcast|softmax_twice)/", None),
        (r"contract/\w+_too_large/", None),
        ("contract/mine.price/", None),  # a user's
        (r"contract/mine\.price/", None),
        ("contract/softmx_twice/", "softmx_twice"),
        ("contract/(broadcast|softmx_twice)/", "softmx_twice"),
        ("contract/nothing_like_it", "nothing_like_it"),
        ("softmax_twice", None),
        ("softmx_twice", "softmx_twice"),
        ("train.py", None),  # a place
        ("old_models", None),
        ("", None),
    ],
)
def test_misspelt(pattern: str, word: str | None) -> None:
    assert misspelt(pattern) == word
