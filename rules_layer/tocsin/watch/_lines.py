"""Where something stands in a watch file, YAML or JSON: the line of a path in its content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tocsin.watch._bad import Path

_MERGE = "tag:yaml.org,2002:merge"
_AMAZONS = {"rule": ("RuleParameters", "rule_to_invoke"), "name": ("RuleConfigurationName",)}


def lines(data: bytes, paths: Sequence[Path], *, yaml: bool = False) -> list[int | None]:
    """The line, from 1 on, of the value at each path, or of the deepest part of it that is there.

    None where that cannot be told. Of data that is no YAML or JSON, the line where it breaks.
    """
    if not yaml and (line := _broken_json(data)) is not None:
        return [line] * len(paths)
    try:
        from yaml import SafeLoader, compose
    except ImportError:  # JSON needs no PyYAML
        return [None] * len(paths)
    try:
        # JSON is YAML except for its tabs, which stand between values only
        root = compose(data if yaml else data.replace(b"\t", b" "), Loader=SafeLoader)
        return [_line(root, path) for path in paths]
    except Exception as error:  # noqa: BLE001  # whatever PyYAML stumbles over; lines are a help
        mark = getattr(error, "problem_mark", None) if yaml else None
        return [None if mark is None else mark.line + 1] * len(paths)


def _broken_json(data: bytes) -> int | None:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno
    except (ValueError, RecursionError):  # not UTF-8, or nested too deep: in no line
        return None
    return None


def _line(root: Any, path: Path) -> int | None:
    if root is None:  # an empty file
        return None
    node = root
    line: int = node.start_mark.line
    for part in _as_written(root, path):
        found = _child(node, part)
        if found is None:
            break
        node, line = found
    return line + 1


def _child(node: Any, part: str | int) -> tuple[Any, int] | None:
    """A node's part, and the line of it: of a mapping's last such key, which is the one that
    counts, unless the value is a plain one on a line of its own.
    """
    if node.id == "sequence" and isinstance(part, int) and part < len(node.value):
        item = node.value[part]
        return item, item.start_mark.line
    if node.id != "mapping":
        return None
    for key, value in reversed(node.value):
        if key.value == str(part):
            mark = value.start_mark if value.id == "scalar" else key.start_mark
            return value, mark.line
    merged = (_child(other, part) for other in _merged(node))
    return next((found for found in merged if found is not None), None)


def _merged(node: Any) -> Iterator[Any]:
    """The mappings that ``<<`` brings into this one, the strongest first."""
    for key, value in node.value:
        if key.tag == _MERGE:
            yield from value.value if value.id == "sequence" else (value,)


def _as_written(root: Any, path: Path) -> Path:
    """The path in Amazon's form, if the file has that."""
    wrapped = root.id == "mapping" and _child(root, "DebugRuleConfigurations") is not None
    if not path or path[0] != "rules" or not (wrapped or root.id == "sequence"):
        return path
    head: Path = ("DebugRuleConfigurations",) if wrapped else ()
    match path[1:]:
        case (at, "actions", *_):
            return (*head, at, "RuleParameters", "action_json")
        case (at, "parameters", *rest):
            return (*head, at, "RuleParameters", *rest)
        case (at, str(key), *_):
            return (*head, at, *_AMAZONS.get(key, ()))
        case rest:
            return (*head, *rest)
