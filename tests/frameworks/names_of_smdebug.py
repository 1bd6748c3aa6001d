"""Prints the public names of smdebug by module; run by an interpreter that has it.

They are what a module itself defines, and what a package's ``__init__`` imports, without a leading
underscore. The source is read and not run: each framework's modules need the framework.
"""

from __future__ import annotations

import ast
import json
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    root = Path(find_spec("smdebug").origin).parent
    found = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        names = {name for each in ast.parse(file.read_text()).body for name in of(each, is_package)}
        if public := sorted(name for name in names if not name.startswith("_")):
            found[module] = public
    print(json.dumps(found, indent=1))


def of(statement, is_package):
    """The names that a statement of a module makes public."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [each.id for each in statement.targets if isinstance(each, ast.Name)]
    if isinstance(statement, ast.ImportFrom) and is_package and statement.module != "__future__":
        return [each.asname or each.name for each in statement.names if each.name != "*"]
    return []


if __name__ == "__main__":
    main()
