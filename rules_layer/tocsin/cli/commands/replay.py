"""``tocsin replay``: a run of the deployment, or all below a prefix, evaluated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.errors import CommandError
from tocsin.cli.not_judged import exit_code
from tocsin.cli.options import Json, RuleFiles, Stack, Stage, WatchFile
from tocsin.cli.output import Document, answer, note, notes

if TYPE_CHECKING:
    from tocsin.cli.stack import Deployment


def replay(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run's URL or folder, or its job's name; with --all s3://bucket/prefix/.",
        ),
    ],
    watch: WatchFile = None,
    rule_files: RuleFiles = None,
    act: Annotated[
        bool, typer.Option("--act", help="Let the deployment replay it, with all actions.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Replay all runs below the prefix, in the deployment.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="NAME", help="With --all: NAME.csv and NAME.parquet."
        ),
    ] = None,
    collect: Annotated[
        str | None,
        typer.Option(metavar="REPLAY", help="With --all: fetch the table of an earlier replay."),
    ] = None,
    stack: Stack = None,
    stage: Stage = None,
    as_json: Json = False,
) -> int:
    """Evaluate a run again from its start, or all runs below a prefix.

    One run is evaluated in this terminal. The result is printed and not stored; nobody is notified
    and nothing is stopped. Without --watch, the run's own watch.json counts; without that, the
    rules of profile recommended. Name the deployment's watch file to replay with it.

    --all lets the deployment evaluate every run below the prefix, with --watch or else with the
    configuration that each would have today. Nobody is notified and nothing is stopped. A CSV file,
    and a Parquet file if pyarrow is installed, has a row for each rule of each run, beside the
    former result. Custom rules are those of the deployment.

    --act lets the deployment discard its state of one run, evaluate it again with its own
    configuration, and act: it notifies and stops, as for a new run. It takes neither --watch nor
    --rules.

    Exit code: as of `tocsin check`; with --all also 2 if a run has no result; with --act 0.

    \b
    Examples:
      tocsin replay s3://bucket/jobs/j1/debug-output --watch new.yaml
      tocsin replay runs/j1
      tocsin replay s3://bucket/jobs/ --all --watch new.yaml -o new-rules
      tocsin replay j1 --act
    """
    from tocsin.cli.place import local_folder

    if (output is not None or collect is not None) and not every:
        raise CommandError("--output and --collect go with --all")
    if every:
        if act or rule_files:
            raise CommandError(
                "--all takes no actions and uses the deployment's rules: remove --act and --rules"
            )
        return _replay_all(run, _deployment(stack, stage), watch, output, collect, as_json=as_json)
    if act and (watch or rule_files):
        raise CommandError("--act uses the deployment's rules: remove --watch and --rules")
    if (folder := local_folder(run)) is not None:
        if act:
            raise CommandError(f"{run} is a local folder: the deployment acts on runs in S3 only")
        return _replay_folder(str(folder), watch, rule_files or (), as_json=as_json)

    from tocsin.cli.replay import print_replayed, replay_deployed, run_url

    deployment = _deployment(stack, stage)
    url = run_url(run, deployment)
    if act:
        answer(replay_deployed(url, deployment), print_replayed, as_json=as_json)
        return 0
    return _replay_here(url, deployment, watch, rule_files or (), as_json=as_json)


def _deployment(stack: str | None, stage: str | None) -> Deployment:
    from tocsin.cli.stack import Deployment

    return Deployment(stack, {}, stage)


def _replayed(url: str, watch: str | None, rule_files: Sequence[str]) -> Document:
    from tocsin.cli.check import check_document
    from tocsin.cli.place import steps_at, storage_of
    from tocsin.cli.watch_options import given_watch

    storage = storage_of(url)
    steps = steps_at(storage)
    given = given_watch(watch, (), None, storage, rule_files)
    document, lines = check_document(storage, given, steps)
    notes(lines)
    return document


def _replay_folder(
    folder: str, watch: str | None, rule_files: Sequence[str], *, as_json: bool
) -> int:
    """Evaluate a local run, which no deployment has evaluated before."""
    from tocsin.cli.verdicts import print_verdicts

    document = {**_replayed(folder, watch, rule_files), "before": {}, "changed": []}
    answer(document, print_verdicts, as_json=as_json)
    return exit_code(document)


def _replay_here(
    url: str,
    deployment: Deployment,
    watch: str | None,
    rule_files: Sequence[str],
    *,
    as_json: bool,
) -> int:
    from tocsin.cli.replay import print_replay, with_before

    document = with_before(_replayed(url, watch, rule_files), url, deployment)
    answer(document, print_replay, as_json=as_json)
    return exit_code(document)


def _replay_all(
    prefix: str,
    deployment: Deployment,
    watch: str | None,
    output: str | None,
    name: str | None,
    *,
    as_json: bool,
) -> int:
    from tocsin.cli import replay_all
    from tocsin.cli.watch_options import watch_of

    if name is None:
        given = None if watch is None else watch_of(watch)
        name = replay_all.start_replay(prefix, deployment, given)
        note(f"replay {name} continues without this terminal: collect it with --collect {name}")
    document = replay_all.collected(prefix, name, deployment, output)
    answer(document, replay_all.print_collected, as_json=as_json)
    return replay_all.exit_code(document)
