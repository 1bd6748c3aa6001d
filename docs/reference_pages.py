"""The pages of the reference, ``docs/reference/``: from the command line, models and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import tocsin
import tocsin_hooks
import typer
from tocsin import rules
from tocsin.cli import app
from tocsin.rules import OPTION_MEANINGS
from tocsin.watch import (
    Capture,
    CollectionConfig,
    Notify,
    RuleConfig,
    Silence,
    Watch,
)
from typer.core import TyperGroup
from typer.testing import CliRunner

REFERENCE = Path(__file__).parent / "reference"

_WATCH_FILE = """\
# The watch file: reference

Every key with its type, its default and its limits. What they are for, with examples:
[the watch file](../watch-file.md), [capture](../capture.md), [alerts](../alerts.md). `tocsin lint`
checks a file. This page is generated from the models (`make docs`).
"""
_SECTIONS: Mapping[str, type] = {
    "Keys of the file": Watch,
    "`rules`, each": RuleConfig,
    "`notify`": Notify,
    "`silences`, each": Silence,
    "`capture`": Capture,
    "`capture.collections`, each": CollectionConfig,
}
_STEP_MODES = """\
`save_interval`, `start_step`, `end_step` and `save_steps` may have a mode before them:
`eval.save_interval`. Modes are `train`, `eval`, `predict` and `global`."""

_CLI = """\
# The command line

What `tocsin COMMAND --help` prints. This page is generated (`make docs`).
"""
_PYTHON = """\
# Python

The public names, with their docstrings. This page is generated (`make docs`).
"""
_RULE_NAMES = ("Read", "Reads", "Rule", "Step", "Tensor", "not_applicable", "violation")
_MODULES = (
    ("tocsin_hooks", "In a training loop.", tocsin_hooks, ("Hook", "Stats")),
    ("tocsin", "Reading a run, in a notebook or a script.", tocsin, tuple(tocsin.__all__)),
    ("tocsin.rules", "For [custom rules](../custom-rules.md).", rules, _RULE_NAMES),
)
_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_ITEM = re.compile(r"^([a-z]\w*(?:, [a-z]\w*)*): (.*(?:\n {4}.*)*)", re.MULTILINE)


def reference_pages() -> dict[Path, str]:
    """Every page by its path."""
    return {
        REFERENCE / "cli.md": _CLI + "".join(f"\n{part}\n" for part in _commands()),
        REFERENCE / "watch-file.md": _WATCH_FILE + "".join(map(_section, _SECTIONS)),
        REFERENCE / "python.md": _PYTHON + "".join(f"\n{part}\n" for part in _names()),
    }


def _commands() -> Iterator[str]:
    """A heading and the help of each command."""
    waiting = [(["tocsin"], typer.main.get_command(app))]
    while waiting:
        words, command = waiting.pop(0)
        asked = [*words[1:], "--help"]
        said = CliRunner().invoke(app, asked, prog_name="tocsin", env={"COLUMNS": "80"})
        assert said.exit_code == 0, said.output
        level = "#" * min(len(words) + 1, 3)
        yield f"{level} {' '.join(words)}\n\n```text\n{said.stdout.strip()}\n```"
        if isinstance(command, TyperGroup):
            inner = command.commands.items()
            waiting[:0] = [([*words, name], below) for name, below in inner if not below.hidden]


def _section(title: str) -> str:
    model = _SECTIONS[title]
    hints = get_type_hints(model, include_extras=True)
    meanings = _meanings(model)
    lines = [f"\n## {title}\n", "| key | type | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(model):
        if field.name == "modes":
            continue
        cells = (
            f"`{field.name}`",
            _cell(_type(hints[field.name])),
            _default(field),
            _cell(_prose(meanings.get(field.name, ""))),
        )
        lines.append(f"| {' | '.join(cells)} |")
    steps = [f"\n{_STEP_MODES}"] if "modes" in hints else []
    return "\n".join([*lines, *steps]) + "\n"


def _meanings(model: type) -> dict[str, str]:
    """The line of each field in the class's docstring; the options of rules have theirs."""
    found = {name: meaning for name, (_, meaning) in OPTION_MEANINGS.items()}
    for names, meaning in _ITEM.findall(inspect.getdoc(model) or ""):
        found |= dict.fromkeys(names.split(", "), " ".join(meaning.split()))
    return found


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "required"
    if value is None or value in ((), "") or dataclasses.is_dataclass(value) or value == {}:
        return "-"
    plain = msgspec.to_builtins(value)
    text = ", ".join(map(str, plain)) if isinstance(plain, tuple) else str(plain)
    return f"`{text.lower() if isinstance(plain, bool) else text}`"


def _type(hint: Any) -> str:
    """A type in words, with its limits."""
    if get_origin(hint) is Annotated:
        base, *metas = get_args(hint)
        of = "items" if get_origin(base) is tuple else "characters"
        limits = [words for meta in metas for words in _limits(meta, of)]
        return ", ".join([_type(base), *limits])
    names = {str: "text", int: "integer", float: "number", bool: "true or false", Any: "anything"}
    if hint in names:
        return names[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if str(origin) == "typing.Literal":
        return " or ".join(f"`{item}`" for item in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}".replace(", ", " of ")
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if arguments:
        return " or ".join(_type(item) for item in arguments if item is not type(None))
    if isinstance(hint, type) and issubclass(hint, str):  # an enumeration of texts
        return " or ".join(f"`{item}`" for item in hint)  # type: ignore[attr-defined]
    return {"datetime": "time"}.get(hint.__name__, "section")


def _limits(meta: msgspec.Meta, of: str) -> Iterator[str]:
    if meta.ge is not None and meta.le is not None:
        yield f"at least {meta.ge}" if meta.le >= 1 << 53 else f"{meta.ge} to {meta.le:g}"
    elif meta.ge is not None:
        yield f"at least {meta.ge}"
    if meta.gt is not None:
        yield f"above {meta.gt}" + (f", at most {meta.le:g}" if meta.le is not None else "")
    if meta.max_length is not None:
        yield f"at most {meta.max_length:,} {of}"
    if meta.tz:
        yield "with a time zone"


def _names() -> Iterator[str]:
    """A heading, a signature and the docstring of each public name."""
    for module, purpose, source, names in _MODULES:
        yield f"## {module}\n\n{purpose}"
        for name in names:
            value = getattr(source, name)
            if value.__module__.startswith("tocsin") and inspect.getdoc(value):
                yield from _name(name, value)


def _name(name: str, value: Any) -> Iterator[str]:
    made_elsewhere = inspect.isclass(value) and issubclass(value, Exception | Enum)
    call = "" if made_elsewhere else f"```text\n{name}{_signature(value)}\n```\n\n"
    yield f"### {name}\n\n{call}{_docstring(value)}"
    if not inspect.isclass(value) or issubclass(value, Exception):
        return
    for member, found in inspect.getmembers(value):
        if member.startswith("_") or member not in vars(value):
            continue
        if inspect.isfunction(found):
            head = f"{member}{_signature(found)}"
        elif isinstance(found, property):
            head = member
        else:
            continue
        if text := _docstring(found):
            yield f"```text\n{name}.{head}\n```\n\n{text}"


def _signature(value: Any) -> str:
    """The parameters, on several lines where they are many; without annotations."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(value).parameters.values()
        if parameter.name != "self"
    ]
    plain = inspect.Signature(parameters)
    text = re.sub(r"<[^>]*>", "…", str(plain))
    return "\n".join(textwrap.wrap(text, 90, subsequent_indent="    "))


def _docstring(value: Any) -> str:
    """A docstring as Markdown: titles in bold, parameters as a list, examples as code."""
    text = inspect.getdoc(value) or ""
    text = _TITLE.sub(lambda found: f"**{found[1]}**\n", text)
    blocks = []
    for block in text.split("\n\n"):
        if ">>>" in block:
            before, marker, example = block.partition(">>>")
            if before.strip():
                blocks.append(before.strip())
            blocks.append(f"```pycon\n{marker}{example.rstrip()}\n```")
        else:
            blocks.append(_ITEM.sub(_item, _prose(block)))
    return "\n\n".join(block.strip("\n") for block in blocks)


def _item(found: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return f"* {names}: {' '.join(found[2].split())}"


def _prose(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
