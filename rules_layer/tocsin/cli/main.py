"""The command line: its commands, in the order of the help."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from tocsin.cli.commands.check import check
from tocsin.cli.commands.checkout import demo, local
from tocsin.cli.commands.convert import convert
from tocsin.cli.commands.doctor import doctor
from tocsin.cli.commands.lint import lint
from tocsin.cli.commands.mcp import mcp
from tocsin.cli.commands.profile import profile
from tocsin.cli.commands.replay import replay
from tocsin.cli.commands.report import report
from tocsin.cli.commands.rules import rules
from tocsin.cli.commands.silence import silence
from tocsin.cli.commands.status import status
from tocsin.cli.commands.tensors import tensors
from tocsin.cli.commands.trace import trace
from tocsin.cli.commands.watch import watch
from tocsin.cli.errors import CommandGroup

app = typer.Typer(
    cls=CommandGroup,
    name="tocsin",
    help="Watch machine-learning training jobs: evaluate rules over the tensors that they write.",
    epilog="Example: tocsin check s3://bucket/jobs/j1/debug-output",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    if show_version:
        typer.echo(version("tocsin"))
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


for command in (
    check,
    watch,
    profile,
    trace,
    report,
    tensors,
    rules,
    lint,
    convert,
    status,
    replay,
    doctor,
    mcp,
    demo,
):
    app.command()(command)
app.add_typer(silence)
app.add_typer(local)
