"""The public names of smdebug 1.0.34 are there, or the page of the migration lists them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import tocsin.smdebug

NAMES: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "smdebug_names.json").read_text()
)
PAGE = Path(__file__).parents[3] / "docs" / "migration.md"
OURS = Path(tocsin.smdebug.__file__).parent
MODULES = sorted(module.removeprefix("smdebug").lstrip(".") for module in NAMES)


def there(module: str) -> set[str]:
    """What a module of ours names in ``__all__``; its framework need not be installed."""
    folder = OURS.joinpath(*module.split(".")) if module else OURS
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not file.exists():
        return set()
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return set(ast.literal_eval(statement.value))
    return set()


def listed() -> dict[str, set[str]]:
    """Module → the names that the page lists; ``…`` for all."""
    section = PAGE.read_text().partition("## Names that are not there")[2]
    found: dict[str, set[str]] = {}
    for line in section.splitlines():
        cells = line.split(" | ")
        if not line.startswith("| `") or len(cells) != 3:
            continue
        names = {"…"} if cells[1] == "…" else set(re.findall(r"`(\w+)`", cells[1]))
        for module in re.findall(r"`([\w.*]+)`", cells[0]):
            found.setdefault(module, set()).update(names)
    return found


LISTED = listed()


def excused(module: str) -> set[str]:
    """The names of a module that the page lists."""
    keys = [module, *(key for key in LISTED if key.endswith("*") and module.startswith(key[:-1]))]
    return set().union(*(LISTED.get(key, set()) for key in keys))


@pytest.mark.parametrize("module", MODULES)
def test_each_name_is_there_or_on_the_page(module: str) -> None:
    names = set(NAMES[f"smdebug.{module}".rstrip(".")])
    missing = names - there(module)
    on_the_page = excused(module)
    assert on_the_page == {"…"} or missing <= on_the_page


def test_the_page_lists_no_name_that_is_there() -> None:
    for module, names in LISTED.items():
        assert not names & there(module), module
        if not module.endswith("*"):
            known = NAMES[f"smdebug.{module}"]
            assert names == {"…"} or names & set(known), module


def test_most_names_of_scripts_and_notebooks_are_there() -> None:
    """The packages that scripts import from have everything."""
    for module in ("", "pytorch", "tensorflow", "xgboost", "mxnet", "rules", "trials"):
        assert set(NAMES[f"smdebug.{module}".rstrip(".")]) <= there(module)
