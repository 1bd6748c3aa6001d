"""Writes the generated pages, ``docs/rules/``, ``docs/contracts.md`` and ``docs/reference/``, and
the README's output; ``make docs`` runs it.

The text of a rule's page comes from its class; it links to its example in ``examples/rules``.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomllib
from tocsin import installing
from tocsin.cli.rules import earlier_saves
from tocsin.explanations import explained_by
from tocsin.rules import MACHINE, PROFILES, TRAINING, describe, get_rule, rule_names
from tocsin.rules.broken_contract import BrokenContract

from docs.constants_page import constants_page
from docs.contracts_page import contracts_page
from docs.reference_pages import REFERENCE, reference_pages

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = ROOT / "docs" / "rules"
EXAMPLES = ROOT / "examples" / "rules"

_HEAD = """\
# The rules

Every built-in rule has a page. `tocsin rules NAME` shows the same in the terminal. This page and
those of the rules are generated (`make docs`).

*Reads*: what a rule needs from a tensor.

* **summary**: the few numbers that the hook writes into the index. Nothing else is fetched.
* **detail**: more numbers, such as counts per unit, quantiles and moments per channel. They come
  from the index if the hook captured them, and are computed from the value otherwise.
* **values**: whole tensors.
* **update**: how far a tensor moved since its last save. It comes from the index if the hook
  captured it, and from the values of both saves otherwise.

*Severity*: that of an alert in profile `recommended`, if the watch file names none. In profile
`sagemaker` it is `warning`. A rule whose own severity is `info` has no actions unless its entry in
the watch file names them. BrokenContract has the severity of the [contract](../contracts.md), and
other rules may raise theirs where their page says so.

*By default*: the profiles in which the rule is active without being named. A rule's page has a
column of defaults for both profiles, because a watch file of either profile may name the rule.

Numbers in the rules that are no parameters are in one table: [constants](constants.md).

"""

_ABOUT_MACHINE = """\
## About the machine

They judge the minutes of a machine run. The section `machine` of a watch file turns it on: see
[the machine](../machine.md).
"""

_ALL_CONTRACTS = "All contracts, with their ids and texts: [contracts](../contracts.md)."

_TABLE = """\
| rule | says | severity | reads | by default |
|---|---|---|---|---|
"""

_EXAMPLE = """\
[`examples/rules/{file}`](../../examples/rules/{file}): `tocsin check` reports the issue in the run
that `fires` writes, and nothing in the run that `stays_quiet` writes."""

_SILENT_EXAMPLE = """\
[`examples/rules/{file}`](../../examples/rules/{file}): `tocsin check` reports nothing in the run
that `stays_quiet` writes."""


def pages() -> dict[Path, str]:
    """Every page by its path."""
    documents = [describe(name) for name in rule_names()]
    tables = [
        _TABLE + "\n".join(_row(each) for each in documents if each["about"] == about) + "\n"
        for about in (TRAINING, MACHINE)
    ]
    index = _HEAD + f"\n{_ABOUT_MACHINE}\n".join(tables)
    found = {PAGES / f"{document['name']}.md": _page(document) for document in documents}
    return {
        PAGES / "README.md": index,
        PAGES / "constants.md": constants_page(),
        **found,
        ROOT / "docs" / "contracts.md": contracts_page(),
    }


def example_of(name: str) -> Path:
    """The path of a rule's example."""
    module = inspect.getmodule(get_rule(name))
    assert module is not None
    return EXAMPLES / f"{module.__name__.rpartition('.')[2]}.py"


def _row(document: dict[str, Any]) -> str:
    name, says = document["name"], _cell(document["summary"])
    kinds = " + ".join(_needs(document["reads"]))
    severity, profiles = get_rule(name).severity.value, ", ".join(document["profiles"])
    return f"| [{name}]({name}.md) | {says} | {severity} | {kinds} | {profiles or '-'} |"


def _needs(reads: dict[str, Any]) -> list[str]:
    """Name what a rule needs of tensors, the cheapest first."""
    tensors = reads["tensors"]
    fields = {field for read in tensors for field in read["fields"]}
    updates = {"update_l1", "update_l2"}
    needs = {
        "summary": bool(fields - updates),
        "update": bool(fields & updates),
        "detail": any(read["detail"] for read in tensors),
        "values": any(read["values"] for read in tensors),
        "time": reads["time"],
        "other runs": bool(reads["runs"]),
    }
    return [need for need, asked in needs.items() if asked] or ["saved steps"]


def _page(document: dict[str, Any]) -> str:
    name = document["name"]
    parts = [
        f"# {name}",
        _prose(document["description"]),
        "## Why it happens",
        document["causes"],
        "## What to try",
        document["advice"],
        (trees := document["advice_for_trees"]) and f"For boosted trees: {trees}",
        "## Parameters",
        _settings(document["parameters"]) or "None, except the options of every rule.",
        "Options of every rule with other defaults here:\n\n" + options
        if (options := _settings(_unusual(document["options"])))
        else "",
        "## What it reads",
        _reads(document["reads"]),
        _watching(document["profiles"]),
        f"Its severity is `{get_rule(name).severity.value}`, unless the watch file names another.",
        _explaining(name),
        _ALL_CONTRACTS if name == BrokenContract.__name__ else "",
        "## Example",
        _example(name),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _example(name: str) -> str:
    path = example_of(name)
    text = _EXAMPLE if "def fires(" in path.read_text() else _SILENT_EXAMPLE
    return text.format(file=path.name)


def _prose(text: str) -> str:
    return text.replace("``", "`")


def _unusual(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    usual: dict[str, Any] = {"for_steps": 1, "start_step": 0, "every": 1, "grace": 0}
    return [
        option
        for option in options
        if any(value != usual.get(option["name"]) for value in option["defaults"].values())
    ]


def _settings(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    head = ["name", *PROFILES, "meaning"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        values = [_value(row["defaults"][profile]) for profile in PROFILES]
        kind = f" ({row['type']})" if "type" in row else ""
        cells = [f"`{row['name']}`", *values, _cell(_prose(row["meaning"])) + kind]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _value(value: Any) -> str:
    if value is None or value == () or value == [] or value == "":
        return "-"
    if isinstance(value, list | tuple):
        return _cell(", ".join(f"`{item}`" for item in value))
    return f"`{_cell(str(value).lower() if isinstance(value, bool) else str(value))}`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _reads(reads: dict[str, Any]) -> str:
    lines = []
    for read in reads["tensors"]:
        fields = [f"`{field}`" for field in read["fields"]]
        what = [*fields, *read["detail"], *(["the values"] if read["values"] else [])]
        back = f"; {earlier_saves(read['back'])}" if read["back"] else ""
        lines.append(f"- {read['selects']}: {', '.join(what) or 'only that it was saved'}{back}")
    if reads["time"]:
        lines.append("- the passing of time")
    return "\n".join(lines)


def _watching(profiles: list[str]) -> str:
    if not profiles:
        return "It is active only if a watch file names it."
    names = " and ".join(f"`{name}`" for name in profiles)
    return f"It is active by default in the profile{'s' * (len(profiles) > 1)} {names}."


def _explaining(rule: str) -> str:
    """The findings that it explains, and those that explain it, as far as they are rules."""
    below = _names(explained_by(rule))
    above = _names(each for each in rule_names() if rule in explained_by(each))
    rows = {"effects of this rule": below, "causes of this rule": above}
    lines = [f"| {what} | {names} |" for what, names in rows.items() if names]
    return "\n".join(["| if both fire, listed as | rules |", "|---|---|", *lines]) if lines else ""


def _names(rules: Iterable[str]) -> str:
    return ", ".join(f"[{name}]({name}.md)" for name in sorted(rules))


def quick_start() -> str:
    """The README with the log of its quick start as the training writes it."""
    script, before, after = _parts(README.read_text())
    return with_installs(with_clone_url(before + log_of(script) + after))


def with_clone_url(text: str) -> str:
    """Return a page whose ``git clone`` has the repository's URL of ``pyproject.toml``."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    return re.sub(r"(git clone )\S+", rf"\g<1>{urls['Repository']}", text)


def with_installs(text: str) -> str:
    """Return a page whose ``pip install`` takes the package from the index, once it is there, and
    from the checkout before that."""
    return re.sub(
        r"(pip install )'(?:\.|tocsin)\[",
        r"\g<1>'tocsin[" if installing.PUBLISHED else r"\g<1>'.[",
        text,
    )


def log_of(script: str) -> str:
    """Return what a training writes to stderr, with paths relative to its folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stderr.replace(f"{Path(folder).resolve()}{os.sep}", "")


def _parts(text: str) -> tuple[str, str, str]:
    """The script of the quick start, and what stands before and after its output."""
    found = re.search(r"```python\n(import numpy.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1], text[: found.start(2)], text[found.end(2) :]


def main() -> None:
    README.write_text(quick_start())
    for path in (ROOT / "docs").glob("**/*.md"):
        path.write_text(with_installs(path.read_text()))
    PAGES.mkdir(exist_ok=True)
    written = pages() | reference_pages()
    for stale in set(PAGES.glob("*.md")) - set(written):
        stale.unlink()
    for path, text in written.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    folders = " and ".join(str(folder.relative_to(ROOT)) for folder in (PAGES, REFERENCE))
    print(f"{len(written)} pages in {folders}")


if __name__ == "__main__":
    main()
