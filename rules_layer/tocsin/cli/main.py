"""The commands and their options. Each command imports what it needs: ``--help`` is quick."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.check_command import check
from tocsin.cli.checkout import demo, local
from tocsin.cli.errors import WRONG, CommandError, CommandGroup
from tocsin.cli.not_judged import exit_code
from tocsin.cli.options import Every, Json, RuleFiles, RunArgument, Stack, Stage, Table
from tocsin.cli.output import answer, note, notes, progress
from tocsin.cli.profile_command import profile
from tocsin.cli.report_command import report
from tocsin.cli.silence import silence
from tocsin.cli.watch_command import watch

app = typer.Typer(
    cls=CommandGroup,
    name="tocsin",
    help="Watches training jobs from outside: rules over the tensors that they write.",
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


app.command()(check)
app.command()(watch)
app.command()(profile)
app.command()(report)


@app.command()
def tensors(
    run: RunArgument,
    digest: Annotated[
        bool, typer.Option("--digest", help="Read all values, for their SHA-256 (with --json).")
    ] = False,
    regex: Annotated[
        str | None, typer.Option(metavar="R", help="Only tensors whose names match.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="C", help="Only tensors of this collection.")
    ] = None,
    export_tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write all for TensorBoard.")
    ] = None,
    as_json: Json = False,
) -> int:
    """List what was captured: the tensors of complete steps.

    --export-tensorboard writes scalars and histograms for TensorBoard.

    \b
    Examples:
      tocsin tensors runs/j1
      tocsin tensors runs/j1 --export-tensorboard boards/j1
      tocsin tensors s3://bucket/jobs/j1/debug-output --regex '^gradient' --json
    """
    from tocsin.cli.place import storage_of
    from tocsin.cli.tensors import print_tensors, saved_files, tensors_document
    from tocsin.tensors import export_tensorboard as write_tensorboard
    from tocsin.trial import snapshot

    storage = storage_of(run)
    found = snapshot(storage)
    with progress("reading") as advance:
        document = tensors_document(
            found, storage, digest=digest, regex=regex, collection=collection, advance=advance
        )
    if export_tensorboard is not None:
        with progress("exporting") as advance:
            several = len(found.workers()) > 1
            files = write_tensorboard(
                storage, saved_files(found, advance), export_tensorboard, by_worker=several
            )
        note(f"{len(files)} event files: see tensorboard --logdir {export_tensorboard}")
    answer(document, print_tensors, as_json=as_json)
    return 0


@app.command()
def rules(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One rule.")] = None,
    rule_files: RuleFiles = None,
    as_json: Json = False,
) -> int:
    """List the rules, or explain one of them.

    For one rule: its parameters, defaults per profile, what it reads and what fires it.

    \b
    Examples:
      tocsin rules
      tocsin rules LossNotDecreasing
    """
    from tocsin.cli.rules import print_rule, print_rules, rule_document, rules_document

    if name is None:
        answer(rules_document(rule_files or ()), print_rules, as_json=as_json)
    else:
        answer(rule_document(name, rule_files or ()), print_rule, as_json=as_json)
    return 0


@app.command()
def lint(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A watch file: YAML or JSON.")],
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECIPIENT",
            help="A recipient that the deployment allows: an address, *@example.com, a phone "
            "number or webhook:NAME; may be given many times.",
        ),
    ] = None,
    rule_files: RuleFiles = None,
    as_json: Json = False,
) -> int:
    """Check a watch file before a job trains under it.

    Finds unknown keys, rules and parameters, wrong actions, times and silences, and recipients
    that the deployment does not allow. Without --allow the allowedRecipients, emails, phones and
    webhooks of ./cdk.json are allowed; if it has none of them, only the form of recipients is
    checked. The files of custom_rules and of --rules are run in order to load their rules.

    Exit code: 0 nothing is wrong, 2 something is wrong; each problem is a line on stderr.

    \b
    Examples:
      tocsin lint watch.yaml
      tocsin lint watch.yaml --allow '*@example.com' --allow webhook:ops
    """
    from tocsin.cli.lint import lint_document, print_lint

    document, problems = lint_document(file, rule_files or (), allow or ())
    for problem in problems:
        note(problem)
    answer(document, print_lint, as_json=as_json)
    return WRONG if document["problems"] else 0


@app.command("convert")
def convert_job(
    file: Annotated[
        str, typer.Argument(metavar="JOB.json", help="A training job as JSON; - reads stdin.")
    ],
    as_json: Json = False,
) -> int:
    """Turn the rules of an Amazon Debugger job into a watch file.

    The job is the answer of DescribeTrainingJob, or the request of CreateTrainingJob. The watch
    file goes to stdout; what it does not take over is a line each on stderr.

    \b
    Examples:
      tocsin convert job.json > watch.yaml
      aws sagemaker describe-training-job --training-job-name j1 | tocsin convert -
    """
    from tocsin.cli.convert import converted, print_watch

    document = converted(file)
    for line in document["not_taken_over"]:
        note(f"not taken over: {line}")
    answer(document, print_watch, as_json=as_json)
    return 0


@app.command()
def status(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's URL, its job's name, or a folder of runs."),
    ] = None,
    actions: Annotated[
        bool, typer.Option("--actions", help="The whole log of alerts and actions, of one run.")
    ] = False,
    every: Every = False,
    watch_all: Annotated[
        bool, typer.Option("--watch", help="Keep the list of runs on the screen until q.")
    ] = False,
    state_bucket: Annotated[
        str | None,
        typer.Option(metavar="BUCKET", help="The bucket with the stack's checkpoints."),
    ] = None,
    table: Table = None,
    topic: Annotated[
        str | None, typer.Option(metavar="ARN", help="The topic that alerts are sent through.")
    ] = None,
    stack: Stack = None,
    stage: Stage = None,
    as_json: Json = False,
) -> int:
    """Ask the deployed stack: all runs, or one and its alerts. Or list the runs in a folder.

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
    from functools import partial

    from tocsin.cli.run_status import print_run, run_document, subscription_notes
    from tocsin.cli.stack import BUCKET, TABLE, TOPIC, Deployment
    from tocsin.cli.status import StackRuns, folder_look, print_runs, runs_below, runs_document

    folder = Path(run) if run is not None and Path(run).is_dir() else None
    deployment = Deployment(stack, {BUCKET: state_bucket, TABLE: table, TOPIC: topic}, stage)
    if watch_all:
        from tocsin.cli.live import FOLDER_PAUSE, STACK_PAUSE, watch_runs

        if (run is not None and folder is None) or actions or as_json:
            raise CommandError("--watch shows a list of runs: of the stack, or of a local folder")
        if folder is not None:
            return watch_runs(folder_look(folder), FOLDER_PAUSE)
        return watch_runs(StackRuns(deployment.find(BUCKET)).look, STACK_PAUSE)
    if folder is not None:
        answer(runs_below(folder), print_runs, as_json=as_json)
        return 0
    if run is None:
        if actions:
            raise CommandError("--actions shows one run: name it")
        runs = runs_document(deployment.find(BUCKET))
        notes(subscription_notes(deployment))
        answer(runs, print_runs, as_json=as_json)
        return 0
    document, lines = run_document(run, deployment)
    notes(lines)
    answer(document, partial(print_run, whole=actions, every=every), as_json=as_json)
    return exit_code(document)


@app.command()
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
    from functools import partial

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


@app.command()
def doctor(stack: Stack = None, stage: Stage = None, as_json: Json = False) -> int:
    """Check a deployment, and say what to do.

    Looks at its version, the capture bucket's region, notifications and key, subscriptions that
    are not confirmed, the SMS sandbox, the account's concurrency, the lag of the last hour, and
    dead letters. Changes nothing.

    Exit code: 0 all is well, 1 there is something to do or to find out, 2 there is no such stack.

    \b
    Examples:
      tocsin doctor
      tocsin doctor --stage dev --json
    """
    from tocsin.cli.doctor import doctor_document, print_doctor
    from tocsin.cli.stack import Deployment

    document = doctor_document(Deployment(stack, {}, stage))
    answer(document, print_doctor, as_json=as_json)
    return 0 if document["sound"] else 1


app.command()(demo)
app.add_typer(silence)
app.add_typer(local)
