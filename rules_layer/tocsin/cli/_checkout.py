"""The commands that run from a checkout of the project: the embedded AWS, and the demo on it."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console

from tocsin.cli._errors import Problem
from tocsin.cli._group import Root
from tocsin.cli._options import Json
from tocsin.cli._output import Document, answer, waiting

local = typer.Typer(
    cls=Root,
    name="local",
    help="The embedded AWS, on this machine.",
    epilog="Example: tocsin local up",
    rich_markup_mode=None,
)


def demo(
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME", help="What goes wrong in the training job.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a training job that goes wrong, and see it stopped.

    Runs from a checkout of the project, on the embedded AWS.

    \b
    Example:
      tocsin demo
    """
    module = _checkout("local.demo", "demo")
    name = scenario or next(iter(module.SCENARIOS))
    if name not in module.SCENARIOS:
        raise Problem(f"unknown scenario {name!r}: there are {', '.join(module.SCENARIOS)}")
    document = module.run(name, Console(stderr=as_json), as_json=as_json)
    if as_json:
        answer(document, _silent, as_json=True)
    return 0


@local.command()
def up(as_json: Json = False) -> int:
    """Start the embedded AWS with the stack deployed.

    It runs in the background until `tocsin local down`; where it is up already, that is all.

    \b
    Example:
      tocsin local up
    """
    from tocsin.cli._local import print_up

    background = _checkout("local.background", "local")
    with waiting("starting the embedded AWS …"):
        document = background.up()
    answer(document, print_up, as_json=as_json)
    return 0


@local.command()
def down(as_json: Json = False) -> int:
    """Stop the embedded AWS; what it held is gone.

    \b
    Example:
      tocsin local down
    """
    from tocsin.cli._local import print_down

    background = _checkout("local.background", "local")
    with waiting("stopping the embedded AWS …"):
        document = {"stopped": background.down()}
    answer(document, print_down, as_json=as_json)
    return 0


def _checkout(module: str, command: str) -> Any:
    """A module of the checkout, which no installation has."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name not in ("local", module):
            raise
        raise Problem(f"tocsin {command} runs from a checkout of the project") from missing


def _silent(document: Document, console: Console) -> None:
    """For what has said everything while it ran."""
