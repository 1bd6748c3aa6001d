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
