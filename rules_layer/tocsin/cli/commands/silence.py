"""``tocsin silence``: holds notifications and stops back until a time."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.errors import CommandError, CommandGroup
from tocsin.cli.options import Json, Stack, Stage, Table
from tocsin.cli.output import answer
from tocsin.model import Severity

silence = typer.Typer(
    cls=CommandGroup,
    name="silence",
    help="Suppress notifications and stops until a given time.",
    epilog="Example: tocsin silence add --job 'nightly-*' --for 2h --reason 'new disk'",
    rich_markup_mode=None,
)


@silence.command()
def add(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown to others.")],
    job: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Jobs whose names match; default: all.")
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="GLOB", help="Rules whose names in the watch file match; default: all."
        ),
    ] = None,
    severity: Annotated[
        Severity | None, typer.Option(help="Alerts with this severity; default: all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All alerts of all jobs.")] = False,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long, from now: 30m, 2h, 3d.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End time, with time zone: 2026-12-01T08:00Z."),
    ] = None,
    author: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Default: the user of the AWS credentials."),
    ] = None,
    stack: Stack = None,
    stage: Stage = None,
    table: Table = None,
    as_json: Json = False,
) -> int:
    """Silence alerts until a time at most 30 days ahead.

    Select alerts with --job, --rule and --severity, or --all. Set the end with --for or --until.

    \b
    Examples:
      tocsin silence add --job 'nightly-*' --for 2h --reason 'disk is replaced'
      tocsin silence add --rule Overfit --severity warning --for 3d --reason 'known, see the wiki'
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from tocsin.cli.silences import (
        author_here,
        end_of_silence,
        print_silence,
        silence_document,
        silence_from_options,
        store,
    )
    from tocsin.cli.stack import TABLE, Deployment
    from tocsin.words import clean

    now = datetime.now(UTC)
    unsigned = silence_from_options(
        job=job,
        rule=rule,
        severity=severity,
        everything=everything,
        until=end_of_silence(duration, until, now),
        reason=reason,
    )
    signed = replace(unsigned, author=clean(author or author_here(), 512))
    added = store(Deployment(stack, {TABLE: table}, stage)).add(signed)
    answer(silence_document(added, now), print_silence, as_json=as_json)
    return 0


@silence.command("list")
def list_(
    expired: Annotated[
        bool, typer.Option("--expired", help="Include silences that have ended.")
    ] = False,
    stack: Stack = None,
    stage: Stage = None,
    table: Table = None,
    as_json: Json = False,
) -> int:
    """List the silences in force, the first to end first. Silences of watch files are not listed.

    \b
    Examples:
      tocsin silence list
      tocsin silence list --expired --json
    """
    from datetime import UTC, datetime

    from tocsin.cli.silences import print_silences, silence_document, store
    from tocsin.cli.stack import TABLE, Deployment

    now = datetime.now(UTC)
    known = store(Deployment(stack, {TABLE: table}, stage))
    found = known.all() if expired else known.active(now.timestamp())
    ordered = sorted(found, key=lambda each: each.until)
    document = {"silences": [silence_document(each, now) for each in ordered]}
    answer(document, print_silences, as_json=as_json)
    return 0


@silence.command()
def expire(
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="The id that `tocsin silence list` shows.")
    ],
    stack: Stack = None,
    stage: Stage = None,
    table: Table = None,
    as_json: Json = False,
) -> int:
    """End a silence now.

    \b
    Example:
      tocsin silence expire 3f9a1c
    """
    from datetime import UTC, datetime

    from tocsin.cli.silences import print_silence, silence_document, store
    from tocsin.cli.stack import TABLE, Deployment

    now = datetime.now(UTC)
    known = store(Deployment(stack, {TABLE: table}, stage))
    if id_ not in {each.id for each in known.active(now.timestamp())}:
        raise CommandError(f"no silence {id_} is in force: see `tocsin silence list`")
    ended = known.expire(id_, now.timestamp())
    answer(silence_document(ended, now), print_silence, as_json=as_json)
    return 0
