"""``tocsin replay``: a run of the deployment, evaluated again."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from tocsin.cli.errors import CommandError
from tocsin.cli.not_judged import exit_code
from tocsin.cli.options import Every, Json, RuleFiles, Stack, Stage
from tocsin.cli.output import answer, notes


def replay(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's URL, or its job's name.")],
    watch: Annotated[
        str | None, typer.Option(metavar="FILE", help="A watch file: YAML or JSON.")
    ] = None,
    rule_files: RuleFiles = None,
    act: Annotated[
        bool, typer.Option("--act", help="Have the deployment do it, with all actions.")
    ] = False,
    every: Every = False,
    stack: Stack = None,
    stage: Stage = None,
    as_json: Json = False,
) -> int:
    """Evaluate a run of the deployment again from its start.

    The result is printed and stored nowhere; nobody is notified and nothing is stopped. Without
    --watch the run's own watch.json counts, and without that the rules of profile recommended: name
    the deployment's watch file to replay with it.

    --act hands the run to the deployment instead, which forgets what it knew of it, evaluates it
    again by its own configuration, and acts: it notifies and stops, as for a new run. It takes
    neither --watch nor --rules.

    Exit code: as of `tocsin check`; with --act 0.

    \b
    Examples:
      tocsin replay s3://bucket/jobs/j1/debug-output --watch new.yaml
      tocsin replay j1 --stage dev --json
      tocsin replay j1 --act
    """
    from tocsin.cli.check import check_document
    from tocsin.cli.place import steps_at, storage_of
    from tocsin.cli.replay import (
        print_replay,
        print_replayed,
        replay_deployed,
        run_url,
        with_before,
    )
    from tocsin.cli.stack import Deployment
    from tocsin.cli.watch_options import given_watch

    deployment = Deployment(stack, {}, stage)
    url = run_url(run, deployment)
    if act:
        if watch or rule_files:
            raise CommandError(
                "--act goes by the deployment's rules: leave --watch and --rules out"
            )
        answer(replay_deployed(url, deployment), print_replayed, as_json=as_json)
        return 0
    storage = storage_of(url)
    steps = steps_at(storage)
    given = given_watch(watch, (), None, storage, rule_files or ())
    replayed, lines = check_document(storage, given, steps)
    notes(lines)
    document = with_before(replayed, url, deployment)
    answer(document, partial(print_replay, every=every), as_json=as_json)
    return exit_code(document)
