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
from tocsin.cli.options import Every, Json, RuleFiles, RunArgument, Stack, Table
from tocsin.cli.output import answer, note, notes, progress
from tocsin.cli.profile_command import profile
from tocsin.cli.report_command import report
from tocsin.cli.silence import silence

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
    state_bucket: Annotated[
        str | None,
        typer.Option(metavar="BUCKET", help="The bucket with the stack's checkpoints."),
    ] = None,
    table: Table = None,
    topic: Annotated[
        str | None, typer.Option(metavar="ARN", help="The topic that alerts are sent through.")
    ] = None,
    stack: Stack = None,
    as_json: Json = False,
) -> int:
    """Ask the deployed stack: all runs, or one and its alerts. Or list the runs in a folder.

    RUN is s3://bucket/prefix, or the name of a job that has one run. The runs in a local folder are
    listed without AWS: each is judged by its own rules.

    For one run: its rules, the silences that cover it, and the last decision for each rule and
    action: what was sent, or why it was not. --actions shows every decision.

    The state bucket is the first of: --state-bucket, the stack of --stack, TOCSIN_STATE_BUCKET in
    the environment, the stack named Tocsin. Likewise the table (TOCSIN_STATE_TABLE) and the topic
    (TOCSIN_TOPIC_ARN). If table or topic is not found, the rest is shown.

    Exit code: 0 nothing found (or a list of runs), 1 issues found, 2 the command or its input is
    wrong, a rule ended in Error, or nothing could be judged.

    \b
    Examples:
      tocsin status
      tocsin status j1
      tocsin status runs/
      tocsin status s3://bucket/jobs/j1/debug-output --json
      tocsin status s3://bucket/jobs/j1/debug-output --actions
    """
    from functools import partial

    from tocsin.cli.run_status import print_run, run_document, subscription_notes
    from tocsin.cli.stack import BUCKET, TABLE, TOPIC, Deployment
    from tocsin.cli.status import print_runs, runs_below, runs_document

    if run is not None and Path(run).is_dir():
        answer(runs_below(Path(run)), print_runs, as_json=as_json)
        return 0
    deployment = Deployment(stack, {BUCKET: state_bucket, TABLE: table, TOPIC: topic})
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


app.command()(demo)
app.add_typer(silence)
app.add_typer(local)
