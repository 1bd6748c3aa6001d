"""How many lines of source and of tests would go with a rule or a contract."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_RULES = ROOT / "rules_layer" / "tocsin" / "rules"
_TESTS_OF_RULES = ROOT / "tests" / "unit" / "rules"
_HOOKS = ROOT / "hooks" / "tocsin_hooks"
_TESTS_OF_CONTRACTS = (ROOT / "tests" / "frameworks", ROOT / "tests" / "unit" / "hooks")

_Place = tuple[Path, ast.AST]
_Definition = ast.FunctionDef | ast.ClassDef


def lines_of_rule(name: str) -> tuple[int, int]:
    """Lines of the file of a rule and of those that nothing else needs, and of their tests."""
    module = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    needed = needed_alone(module, _imports())
    tests = (_TESTS_OF_RULES / f"test_{each.lstrip('_')}.py" for each in needed)
    return sum(_count(file) for each in needed for file in _RULES.rglob(f"{each}.py")), sum(
        map(_count, tests)
    )


def lines_of_contract(name: str) -> tuple[int, int]:
    """Lines of the hooks' statements in which a contract's id stands, with the functions and
    classes that nothing else uses, and of the tests in which the id stands."""
    source = gone_with(name, _trees(_HOOKS))
    tests = [
        (path, node)
        for folder in _TESTS_OF_CONTRACTS
        for path, tree in _trees(folder)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and _mentions(node, name)
    ]
    return len(_lines(source)), len(_lines(tests))


def needed_alone(module: str, imports: Mapping[str, frozenset[str]]) -> set[str]:
    """A module, and those helpers that nothing imports but modules that go with it."""
    gone = {module}
    while more := {
        name
        for name in imports
        if name.startswith("_")
        and name not in gone
        and (by := {each for each, needs in imports.items() if name in needs})
        and by <= gone
    }:
        gone |= more
    return gone


@cache
def _imports() -> Mapping[str, frozenset[str]]:
    """The modules of rules that each module of the layer needs, by its name."""
    found: dict[str, frozenset[str]] = {}
    for path in _RULES.parent.rglob("*.py"):
        name = path.stem if _RULES in path.parents else str(path)
        needs = set(re.findall(r"\btocsin\.rules\.(?:[a-z]+\.)?(\w+)", path.read_text("utf-8")))
        found[name] = frozenset(needs - {name})
    return found


def gone_with(name: str, trees: Iterable[tuple[Path, ast.Module]]) -> list[_Place]:
    """The statements that hold an id, and the definitions that are used in nothing but those."""
    every = [*trees]
    defined: dict[str, list[tuple[Path, _Definition]]] = {}
    left = Counter[str]()
    gone: list[_Place] = []
    for path, tree in every:
        left += _names(tree)
        gone += [(path, statement) for statement in _statements(tree, name)]
        for node in ast.walk(tree):
            if isinstance(node, _Definition):
                defined.setdefault(node.name, []).append((path, node))
    fresh = list(gone)
    while fresh:
        used = sum((_names(node) for _, node in fresh), Counter[str]())
        left -= used
        fresh = [
            defined.pop(each)[0]
            for each in used
            if not left[each] and len(defined.get(each, ())) == 1
        ]
        gone += fresh
    return gone


def _statements(tree: ast.AST, name: str) -> Iterator[ast.stmt]:
    """The smallest statements that hold the id: an ``if`` with nothing else in it as a whole."""
    for node in ast.iter_child_nodes(tree):
        if not _holds(node, name):
            continue
        within = list(_statements(node, name))
        alone = isinstance(node, ast.If) and node.body == within and not node.orelse
        if isinstance(node, ast.stmt) and (alone or not within):
            yield node
        else:
            yield from within


def _holds(node: ast.AST, name: str) -> bool:
    found = ast.walk(node)
    return any(isinstance(each, ast.Constant) and each.value == name for each in found)


def _names(node: ast.AST) -> Counter[str]:
    """The names that it uses, and how often."""
    found = Counter[str]()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found[each.id] += 1
        elif isinstance(each, ast.Attribute):
            found[each.attr] += 1
    return found


@cache
def _trees(folder: Path) -> tuple[tuple[Path, ast.Module], ...]:
    found = sorted(folder.rglob("*.py"))
    return tuple((path, ast.parse(path.read_text("utf-8"))) for path in found)


def _mentions(node: ast.AST, name: str) -> bool:
    texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return any(isinstance(text, str) and re.search(rf"\b{name}\b", text) for text in texts)


def _lines(places: Iterable[_Place]) -> set[tuple[Path, int]]:
    found: set[tuple[Path, int]] = set()
    for path, node in places:
        decorators = node.decorator_list if isinstance(node, _Definition) else []
        spans = [each for each in (node, *decorators) if isinstance(each, ast.stmt | ast.expr)]
        first, last = min(s.lineno for s in spans), max(s.end_lineno or 0 for s in spans)
        found |= {(path, line) for line in range(first, last + 1)}
    return found


def _count(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines()) if path.is_file() else 0
