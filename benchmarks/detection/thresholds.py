"""Every threshold of profile ``recommended`` in one file, written before held-out tasks are run.

    python -m benchmarks.detection.thresholds

The changelog names the digest of that file: who reads the figures of held-out tasks can see that
no threshold was changed after their runs were seen.
"""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

from tocsin import rules
from tocsin.rules import RECOMMENDED, Rule, defaults, get_rule, rule_names

FILE = Path(__file__).with_name("thresholds.json")


def thresholds() -> dict[str, Any]:
    """The parameters, options and severity of each rule, and the constants of the code of rules."""
    watching = {name: _of_rule(get_rule(name)) for name in rule_names(RECOMMENDED)}
    folder = Path(str(rules.__file__)).parent
    constants = {
        path.relative_to(folder).with_suffix("").as_posix(): found
        for path in sorted(folder.rglob("*.py"))
        if (found := _of(path))
    }
    return {"rules": watching, "constants": constants}


def text() -> str:
    return json.dumps(thresholds(), indent=1, sort_keys=True, default=str) + "\n"


def digest() -> str:
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def _of_rule(rule: type[Rule]) -> dict[str, Any]:
    return {**defaults(rule, RECOMMENDED), "severity": rule.severity.value}


def _of(path: Path) -> dict[str, Any]:
    """The numbers to which a module gives a name in capitals, as they stand there."""
    assigned = (
        node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.Assign)
    )
    return {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in assigned
        if ast.unparse(node.targets[0]).isupper() and _is_of_numbers(node.value)
    }


def _is_of_numbers(value: ast.expr) -> bool:
    constants = [each.value for each in ast.walk(value) if isinstance(each, ast.Constant)]
    return bool(constants) and all(isinstance(each, int | float) for each in constants)


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
    print(f"{FILE}: SHA-256 {digest()}")
