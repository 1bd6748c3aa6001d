"""``tocsin silence``: for a while no message is sent, and no job stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli._errors import Problem
from tocsin.cli._group import Root
from tocsin.cli._options import Json, Stack, Table
from tocsin.cli._output import answer
from tocsin.model import Severity

silence = typer.Typer(
    cls=Root,
    name="silence",
    help="Hold messages and stops back for a while.",
    epilog="Example: tocsin silence add --job 'nightly-*' --for 2h --reason 'new disk'",
    rich_markup_mode=None,
)


@silence.command()
def add(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the others.")],
    job: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Jobs of such names; default: all.")
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(metavar="GLOB", help="Rules of such names in the watch file; default: all."),
    ] = None,
    severity: Annotated[
        Severity | None, typer.Option(help="Alerts of this severity; default: all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All alerts of all jobs.")] = False,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="From now on: 30m, 2h, 3d.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="With time zone: 2026-12-01T08:00Z.")
    ] = None,
    author: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Default: the user of the AWS credentials."),
    ] = None,
    stack: Stack = None,
    table: Table = None,
    as_json: Json = False,
) -> int:
    """Silence alerts until a time at most 30 days ahead.

    At least one of --job, --rule and --severity says which, or --all; --for or --until, how long.

    \b
    Examples:
      tocsin silence add --job 'nightly-*' --for 2h --reason 'disk is replaced'
      tocsin silence add --rule Overfit --severity warning --for 3d --reason 'known, see the wiki'
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from tocsin.cli._asked import asked, author_here, ending
    from tocsin.cli._silences import print_silence, silence_document, store
    from tocsin.cli._stack import TABLE, Deployment
    from tocsin.words import clean

    now = datetime.now(UTC)
    wanted = asked(
        job=job,
        rule=rule,
        severity=severity,
        everything=everything,
        until=ending(lasting, until, now),
        reason=reason,
    )
    signed = replace(wanted, author=clean(author or author_here(), 512))
    added = store(Deployment(stack, {TABLE: table})).add(signed)
    answer(silence_document(added, now), print_silence, as_json=as_json)
    return 0


@silence.command("list")
def list_(
    expired: Annotated[bool, typer.Option("--expired", help="Also those that are over.")] = False,
    stack: Stack = None,
    table: Table = None,
    as_json: Json = False,
) -> int:
    """List the silences in force, the first to end first. Those of watch files are not among them.

    \b
    Examples:
      tocsin silence list
      tocsin silence list --expired --json
    """
    from datetime import UTC, datetime

    from tocsin.cli._silences import print_silences, silence_document, store
    from tocsin.cli._stack import TABLE, Deployment

    now = datetime.now(UTC)
    known = store(Deployment(stack, {TABLE: table}))
    found = known.all() if expired else known.active(now.timestamp())
    ordered = sorted(found, key=lambda each: each.until)
    document = {"silences": [silence_document(each, now) for each in ordered]}
    answer(document, print_silences, as_json=as_json)
    return 0


@silence.command()
def expire(
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `tocsin silence list` shows it.")],
    stack: Stack = None,
    table: Table = None,
    as_json: Json = False,
) -> int:
    """End a silence now.

    \b
    Example:
      tocsin silence expire 3f9a1c
    """
    from datetime import UTC, datetime

    from tocsin.cli._silences import print_silence, silence_document, store
    from tocsin.cli._stack import TABLE, Deployment

    now = datetime.now(UTC)
    known = store(Deployment(stack, {TABLE: table}))
    if id_ not in {each.id for each in known.active(now.timestamp())}:
        raise Problem(f"no silence {id_} is in force: `tocsin silence list` shows those that are")
    ended = known.expire(id_, now.timestamp())
    answer(silence_document(ended, now), print_silence, as_json=as_json)
    return 0
