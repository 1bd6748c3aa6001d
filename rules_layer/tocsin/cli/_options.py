"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

RuleFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="PATH",
        help="A file of rules, or a folder of such files; may be given many times.",
    ),
]

Stack = Annotated[
    str | None,
    typer.Option("--stack", metavar="NAME", help="The stack to ask for what is not named here."),
]

Table = Annotated[
    str | None,
    typer.Option("--table", metavar="TABLE", help="Where the stack keeps alerts and silences."),
]
