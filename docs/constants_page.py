"""The page of the numbers in rules that are no parameters, ``docs/rules/constants.md``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import tocsin.rules

RULES = Path(tocsin.rules.__file__).parent

_HEAD = """\
# Constants

Numbers in the rules that are no parameters, each with its reason. Somebody who wants to change one
in a watch file needs a parameter: please open an issue. Generated (`make docs`) from
`rules_layer/tocsin/rules`.
"""


@dataclass(frozen=True)
class Constant:
    """A number at the top of a module: its ``value`` as written, and the comment beside it."""

    module: str
    name: str
    value: str
    reason: str


def constants_page() -> str:
    """Return the page: a table for each package of rules."""
    parts = [_HEAD.rstrip()]
    for package, found in groupby(constants(), lambda each: each.module.rpartition("/")[0]):
        rows = (
            f"| `{each.name}` | {each.value} | {_cell(each.reason)} "
            f"| `{each.module.rpartition('/')[2]}.py` |"
            for each in found
        )
        head = "| constant | value | reason | module |\n|---|---|---|---|"
        parts.append(f"## {package or 'Shared'}\n\n{head}\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`")


def constants() -> list[Constant]:
    """Return all constants, by package and module."""
    modules = sorted(RULES.rglob("*.py"), key=lambda path: (str(path.parent), path.name))
    return [each for path in modules for each in _constants(path)]


def _constants(path: Path) -> Iterator[Constant]:
    text = path.read_text()
    lines, body = text.splitlines(), ast.parse(text).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not _is_number(node.value):
            continue
        _, _, comment = lines[node.lineno - 1].partition("  # ")
        says = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        reason = comment or (ast.unparse(after).strip("'\"") if says and after else "")
        name, value = ast.unparse(node.targets[0]), ast.unparse(node.value)
        module = path.relative_to(RULES).with_suffix("").as_posix()
        yield Constant(module, name.strip("()"), value.strip("()"), reason.replace("\\n", " "))


def _is_number(value: ast.expr) -> bool:
    """Return whether an expression is a number, or several: names of others may be in it."""
    if isinstance(value, ast.Tuple):
        return all(map(_is_number, value.elts))
    if isinstance(value, ast.BinOp):
        return _is_number(value.left)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)
