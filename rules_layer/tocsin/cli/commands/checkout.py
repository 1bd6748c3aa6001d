"""Commands that run from a checkout of the project: the embedded AWS and the demo on it."""

from __future__ import annotations

import shlex
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tocsin.cli.display import print_facts, styled
from tocsin.cli.errors import CommandError, CommandGroup
from tocsin.cli.options import Json
from tocsin.cli.output import Document, answer, waiting

local = typer.Typer(
    cls=CommandGroup,
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
    """Run a training job that goes wrong and watch it being stopped.

    Runs from a checkout of the project, on the embedded AWS.

    \b
    Example:
      tocsin demo
    """
    module = _checkout("local.demo", "demo")
    name = scenario or next(iter(module.SCENARIOS))
    if name not in module.SCENARIOS:
        raise CommandError(f"unknown scenario {name!r}: there are {', '.join(module.SCENARIOS)}")
    document = module.run(name, Console(stderr=as_json), as_json=as_json)
    if as_json:
        answer(document, _silent, as_json=True)
    return 0


@local.command()
def up(
    context: Annotated[
        list[str] | None,
        typer.Option("-c", metavar="KEY=VALUE", help="An option of the deployment. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Start the embedded AWS with the stack deployed.

    It runs in the background until `tocsin local down`. Does nothing if it is up already. The
    options are those of a deployment: docs/options.md.

    \b
    Examples:
      tocsin local up
      tocsin local up -c emails=me@example.com -c watchFile=watch.yaml
    """
    background = _checkout("local.background", "local")
    options = dict(_option(each) for each in context or ())
    with waiting("starting the embedded AWS …"):
        document = background.up(options) if options else background.up()
    answer(document, _print_up, as_json=as_json)
    return 0


@local.command()
def down(as_json: Json = False) -> int:
    """Stop the embedded AWS and delete all its data.

    \b
    Example:
      tocsin local down
    """
    background = _checkout("local.background", "local")
    with waiting("stopping the embedded AWS …"):
        document = {"stopped": background.down()}
    answer(document, _print_down, as_json=as_json)
    return 0


@local.command()
def env(as_json: Json = False) -> int:
    """Print the variables that point a shell to the embedded AWS.

    \b
    Example:
      eval "$(tocsin local env)"
    """
    background = _checkout("local.background", "local")
    answer({"environment": background.resources()["environment"]}, _print_env, as_json=as_json)
    return 0


@local.command()
def mail(as_json: Json = False) -> int:
    """Print the e-mails that have arrived since the last time, as text.

    \b
    Example:
      tocsin local mail
    """
    found = _checkout("local.resources", "local").mails()
    answer({"mails": found}, _print_mail, as_json=as_json)
    return 0


@local.command(context_settings={"ignore_unknown_options": True})
def submit(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A training script.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Its arguments.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a script as a training job of the local SageMaker.

    A hook without `out` writes to the run in TOCSIN_RUN, which the job has in its environment.

    \b
    Example:
      tocsin local submit train.py --epochs 3
    """
    document = _checkout("local.resources", "local").submit(script, arguments or [])
    answer(document, _print_job, as_json=as_json)
    return 0


@local.command()
def logs(as_json: Json = False) -> int:
    """Print the log of the embedded AWS.

    \b
    Example:
      tocsin local logs
    """
    lines = _checkout("local.background", "local").log_lines()
    answer({"lines": lines}, _print_logs, as_json=as_json)
    return 0


def _option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise CommandError(f"-c {text}: write it as KEY=VALUE, such as emails=me@example.com")
    return key, value


def _checkout(module: str, command: str) -> Any:
    """Import a module that is in a checkout and not in an installation."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name not in ("local", module):
            raise
        raise CommandError(f"tocsin {command} runs from a checkout of the project") from missing


def _silent(document: Document, console: Console) -> None:
    """Print nothing: the demo has printed all while it ran."""


def _print_up(document: Document, console: Console) -> None:
    """Print the names of resources, and the variables that point a shell to the embedded AWS."""
    console.print(Text("The embedded AWS is up; `tocsin local down` stops it.\n", "bold"))
    print_facts({name: text for name, text in document.items() if isinstance(text, str)}, console)
    console.print(Text("\nTo use it from this shell:", "bold"))
    _print_env(document, console)


def _print_env(document: Document, console: Console) -> None:
    for name, value in document["environment"].items():
        console.print(styled(f"export {name}={shlex.quote(value)}"), soft_wrap=True)


def _print_mail(document: Document, console: Console) -> None:
    if not document["mails"]:
        console.print("no new e-mail")
    for mail in document["mails"]:
        console.print(styled(f"Subject: {mail['subject']}", "bold"), soft_wrap=True)
        for line in mail["body"].splitlines():
            console.print(styled(line), soft_wrap=True)
        console.print()


def _print_job(document: Document, console: Console) -> None:
    print_facts(document, console)


def _print_logs(document: Document, console: Console) -> None:
    for line in document["lines"]:
        console.print(styled(line), soft_wrap=True)


def _print_down(document: Document, console: Console) -> None:
    console.print("stopped" if document["stopped"] else "it was not running")
