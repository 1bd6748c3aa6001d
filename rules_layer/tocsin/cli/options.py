"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A local folder or s3://bucket/prefix.")
]

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

Every = Annotated[
    bool, typer.Option("--all", help="Show the rules without a finding, too, a line each.")
]

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
    typer.Option("--stack", metavar="NAME", help="The stack whose resources are used."),
]

Stage = Annotated[
    str | None,
    typer.Option(
        "--stage",
        metavar="STAGE",
        help="The stage that was deployed with -c stage=STAGE; default: TOCSIN_STAGE, or none.",
    ),
]

Table = Annotated[
    str | None,
    typer.Option("--table", metavar="TABLE", help="The stack's table of alerts and silences."),
]
