"""Finds the line of a path in a watch file, YAML or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tocsin.watch.errors import Path

_MERGE = "tag:yaml.org,2002:merge"
_SAGEMAKER_KEYS = {"rule": ("RuleParameters", "rule_to_invoke"), "name": ("RuleConfigurationName",)}


def lines(data: bytes, paths: Sequence[Path], *, yaml: bool = False) -> list[int | None]:
    """Return the line, from 1 on, of the value at each path, or of the longest part of the path
    there.

    None if it is not known. If the data is not YAML or JSON, the line of the syntax error.
    """
    if not yaml and (line := _broken_json(data)) is not None:
        return [line] * len(paths)
    try:
        root = _root(data, yaml)
        return [_line(root, path) for path in paths]
    except Exception as error:  # noqa: BLE001  # lines are only a help: any error of PyYAML counts as unknown
        mark = getattr(error, "problem_mark", None) if yaml else None
        return [None if mark is None else mark.line + 1] * len(paths)


def repeated_keys(data: bytes, *, yaml: bool = False) -> list[tuple[str, int]]:
    """Each key that its mapping has before, with its line. Only the last of equal keys counts."""
    try:
        nodes, found = [_root(data, yaml)], []
    except Exception:  # noqa: BLE001  # the syntax is wrong, and that is a fault of its own
        return []
    known: set[int] = set()  # an alias of YAML leads to a node again
    while nodes:
        node = nodes.pop()
        if node is None or id(node) in known:
            continue
        known.add(id(node))
        if node.id == "sequence":
            nodes += node.value
        elif node.id == "mapping":
            keys: set[str] = set()
            for key, value in node.value:
                nodes.append(value)
                name = str(key.value)
                if name in keys:
                    found.append((name, key.start_mark.line + 1))
                keys.add(name)
    return found


def _root(data: bytes, yaml: bool) -> Any:
    """The tree of the file. Raises ImportError without PyYAML, which JSON does not need."""
    from yaml import SafeLoader, compose

    # JSON is YAML except for its tabs, which are between values only
    return compose(data if yaml else data.replace(b"\t", b" "), Loader=SafeLoader)


def _broken_json(data: bytes) -> int | None:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno
    except (ValueError, RecursionError):  # not UTF-8, or nested too deep: no line is known
        return None
    return None


def _line(root: Any, path: Path) -> int | None:
    if root is None:  # an empty file
        return None
    node = root
    line: int = node.start_mark.line
    for part in _sagemaker_path(root, path):
        found = _child(node, part)
        if found is None:
            break
        node, line = found
    return line + 1


def _child(node: Any, part: str | int) -> tuple[Any, int] | None:
    """A part of a node, and its line.

    The last of equal keys counts. The line is that of the key, or of a scalar value.
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
    """The mappings that ``<<`` merges into this one, the strongest first."""
    for key, value in node.value:
        if key.tag == _MERGE:
            yield from value.value if value.id == "sequence" else (value,)


def _sagemaker_path(root: Any, path: Path) -> Path:
    """The path in Amazon's form, if the file has that form."""
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
            return (*head, at, *_SAGEMAKER_KEYS.get(key, ()))
        case rest:
            return (*head, *rest)
