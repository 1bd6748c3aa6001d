"""``tocsin status``: runs and alerts of the deployment."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from tocsin.cli.errors import CommandError
from tocsin.cli.not_judged import exit_code
from tocsin.cli.options import Every, Json, Stack, Stage, Table
from tocsin.cli.output import answer, notes


def status(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's URL, its job's name, or a folder of runs."),
    ] = None,
    actions: Annotated[
        bool, typer.Option("--actions", help="Show the whole log of alerts and actions of one run.")
    ] = False,
    every: Every = False,
    watch_all: Annotated[
        bool, typer.Option("--watch", help="Keep the list of runs on the screen until you press q.")
    ] = False,
    state_bucket: Annotated[
        str | None,
        typer.Option(metavar="BUCKET", help="The bucket that holds the stack's checkpoints."),
    ] = None,
    table: Table = None,
    topic: Annotated[
        str | None, typer.Option(metavar="ARN", help="The topic that alerts are sent through.")
    ] = None,
    stack: Stack = None,
    stage: Stage = None,
    as_json: Json = False,
) -> int:
    """Show the deployed stack: all runs, or one and its alerts. Or list the runs in a folder.

    RUN is s3://bucket/prefix, or the name of a job that has one run. The runs in a local folder are
    listed without AWS: each is judged by its own rules.

    For one run: its rules, the silences that cover it, and the last decision for each rule and
    action: what was sent, or why it was not. --actions shows every decision.

    --watch keeps the list of runs on the screen, reads what is new, and ends with q or Ctrl-C.

    The state bucket is the first of: --state-bucket, the stack of --stack or --stage,
    TOCSIN_STATE_BUCKET in the environment, the stack of TOCSIN_STAGE, the stack named Tocsin.
    Likewise the table (TOCSIN_STATE_TABLE) and the topic (TOCSIN_TOPIC_ARN). If table or topic is
    not found, the rest is shown.

    Exit code: 0 nothing found (or a list of runs), 1 issues found, 2 the command or its input is
    wrong, a rule ended in Error, or nothing could be judged.

    \b
    Examples:
      tocsin status
      tocsin status j1
      tocsin status runs/
      tocsin status --watch
      tocsin status s3://bucket/jobs/j1/debug-output --json
      tocsin status s3://bucket/jobs/j1/debug-output --actions
    """
    from tocsin.cli.place import local_folder
    from tocsin.cli.run_list import folder_look, print_runs, runs_below

    folder = None if run is None else local_folder(run)
    if watch_all and ((run is not None and folder is None) or actions or as_json):
        raise CommandError("--watch shows a list of runs: of the stack, or of a local folder")
    if folder is not None:
        if watch_all:
            from tocsin.cli.live import FOLDER_PAUSE, watch_runs

            return watch_runs(folder_look(folder), FOLDER_PAUSE)
        answer(runs_below(folder), print_runs, as_json=as_json)
        return 0
    if run is None and actions:
        raise CommandError("--actions shows one run: name it")

    from tocsin.cli.run_status import print_run, run_document, subscription_notes
    from tocsin.cli.stack import BUCKET, TABLE, TOPIC, Deployment
    from tocsin.cli.status import StackRuns, runs_document

    deployment = Deployment(stack, {BUCKET: state_bucket, TABLE: table, TOPIC: topic}, stage)
    if watch_all:
        from tocsin.cli.live import STACK_PAUSE, watch_runs

        return watch_runs(StackRuns(deployment.find(BUCKET)).look, STACK_PAUSE)
    if run is None:
        runs = runs_document(deployment.find(BUCKET))
        notes(subscription_notes(deployment))
        answer(runs, print_runs, as_json=as_json)
        return 0
    document, lines = run_document(run, deployment)
    notes(lines)
    answer(document, partial(print_run, whole=actions, every=every), as_json=as_json)
    return exit_code(document)
