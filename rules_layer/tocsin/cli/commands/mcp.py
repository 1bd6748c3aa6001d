"""The command ``tocsin mcp``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.errors import CommandError
from tocsin.cli.options import Stack, Stage, Table


def mcp(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="A folder of runs; without it, the deployed stack."),
    ] = None,
    allow_silence: Annotated[
        bool,
        typer.Option(
            "--allow-silence", help="Offer the tool silence, which asks the person each time."
        ),
    ] = False,
    stack: Stack = None,
    stage: Stage = None,
    table: Table = None,
) -> int:
    """Serve runs to an agent by MCP, on stdin and stdout.

    An agent lists runs, reads verdicts with cause and advice, series of tensors, links of reports,
    and rules. It changes nothing. With --allow-silence it may also silence a job of the deployment,
    after the person has confirmed it in the client.

    Needs the extra mcp. A client starts the command by itself: see docs/agents.md.

    \b
    Examples:
      tocsin mcp runs/
      tocsin mcp --stage prod
      tocsin mcp --allow-silence
    """
    from tocsin.cli.agent_places import Folder
    from tocsin.installing import install

    if folder is not None and not folder.is_dir():
        raise CommandError(f"{folder}: no such folder")
    if folder is not None and allow_silence:
        raise CommandError("--allow-silence is for the deployment: leave out FOLDER")
    try:
        from tocsin.cli.agent_server import server
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "pydantic"):
            raise
        raise CommandError(f"this needs the package mcp: {install('mcp')}") from None
    if folder is not None:
        server(Folder(folder)).run()
        return 0
    from tocsin.cli.agent_deployment import Deployed, silencing
    from tocsin.cli.stack import TABLE, Deployment

    deployment = Deployment(stack, {TABLE: table}, stage)
    server(Deployed(deployment), silencing(deployment) if allow_silence else None).run()
    return 0
