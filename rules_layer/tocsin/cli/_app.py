"""The commands as they are typed. Only what is typed is imported here: ``--help`` is quick."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli._checkout import demo, local
from tocsin.cli._errors import Problem
from tocsin.cli._group import WRONG, Root
from tocsin.cli._not_judged import errors, nothing_judged, why_nothing
from tocsin.cli._options import Json, RuleFiles, Stack, Table
from tocsin.cli._output import Document, answer, note, notes, progress
from tocsin.cli._silence import silence

app = typer.Typer(
    cls=Root,
    name="tocsin",
    help="Watches training jobs from outside: rules over the tensors that they write.",
    epilog="Example: tocsin check s3://bucket/jobs/j1/debug-output",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
FOUND = 1


class Profile(StrEnum):
    recommended = "recommended"
    sagemaker = "sagemaker"


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A local folder or s3://bucket/prefix.")
]


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


@app.command()
def check(
    run: RunArgument,
    watch: Annotated[
        str | None, typer.Option(metavar="FILE", help="A watch file: YAML or JSON.")
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,…]",
            help="A rule with its parameters and engine options; may be given many times.",
        ),
    ] = None,
    rule_files: RuleFiles = None,
    profile: Annotated[
        Profile | None, typer.Option(help="Whose defaults; goes before the watch file's.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Evaluate rules over a whole run, with the engine of AWS.

    Without --watch and --rule the run's own watch.json counts, and without one the rules of
    profile recommended watch. Rules of --rule join those of --watch, and replace one of the same
    name. Those of the watch file's custom_rules are known, and those of --rules.

    In --rule, a part without "=" adds to the list before it, as does a key said again; "\\,"
    is a comma within a value. Beside parameters and engine options there are name, include
    and exclude.

    A rule that has judged no step is shown as "not judged" or NotApplicable, and is listed in
    not_judged of --json: for want of a loss, of steps, or of what else it reads.

    Exit code: 0 nothing found, 1 issues found, 2 the command or its input is wrong, a rule ended
    in Error, or nothing could be judged.

    \b
    Examples:
      tocsin check runs/j1
      tocsin check s3://bucket/jobs/j1/debug-output --watch watch.yaml --json
      tocsin check runs/j1 --rule ExplodingTensor:tensor_regex=^loss,^gradient
      tocsin check runs/j1 --rule VanishingGradient:threshold=1e-6,for_steps=1
      tocsin check runs/j1 --rules my_rules/ --rule MyRule:limit=3
      tocsin check runs/j1 --rule 'LossNotDecreasing:tensor_regex=^loss_\\d{1\\,2}$'
    """
    from tocsin.cli._check import checked
    from tocsin.cli._place import steps_at, storage_of
    from tocsin.cli._verdicts import print_verdicts
    from tocsin.cli._watch_options import given_watch

    storage = storage_of(run)
    steps = steps_at(storage)
    given = given_watch(
        watch, rule or (), profile.value if profile else None, storage, rule_files or ()
    )
    document, said = checked(storage, given, steps)
    notes(said)
    answer(document, print_verdicts, as_json=as_json)
    return _exit_code(document)


@app.command()
def tensors(
    run: RunArgument,
    digest: Annotated[
        bool, typer.Option("--digest", help="Read all values, for their SHA-256 (with --json).")
    ] = False,
    regex: Annotated[
        str | None, typer.Option(metavar="R", help="Only names in which this is found.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="C", help="Only tensors of this collection.")
    ] = None,
    export_tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write all for TensorBoard, too.")
    ] = None,
    as_json: Json = False,
) -> int:
    """List what was captured: the tensors of complete steps.

    With --export-tensorboard scalars and histograms are written where TensorBoard finds them.

    \b
    Examples:
      tocsin tensors runs/j1
      tocsin tensors runs/j1 --export-tensorboard boards/j1
      tocsin tensors s3://bucket/jobs/j1/debug-output --regex '^gradient' --json
    """
    from tocsin.cli._place import open_run
    from tocsin.cli._tensors import print_tensors, tensors_document
    from tocsin.tensors import export_tensorboard as write_tensorboard

    found = open_run(run)
    with progress("reading") as advance:
        document = tensors_document(
            found, digest=digest, regex=regex, collection=collection, advance=advance
        )
    if export_tensorboard is not None:
        with progress("exporting") as advance:
            files = write_tensorboard(found, export_tensorboard, advance)
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

    Of one: its parameters, defaults per profile, what it reads and what fires it.

    \b
    Examples:
      tocsin rules
      tocsin rules LossNotDecreasing
    """
    from tocsin.cli._rules import rule_document, rules_document
    from tocsin.cli._rules_text import print_rule, print_rules

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
    that the deployment does not allow. Without --allow it allows the allowedRecipients, emails,
    phones and webhooks of ./cdk.json; if it has none of them, only the form of recipients is
    checked. The files of custom_rules, and of --rules, are run, for the rules in them.

    Exit code: 0 nothing is wrong, 2 something is; each problem is a line on stderr.

    \b
    Examples:
      tocsin lint watch.yaml
      tocsin lint watch.yaml --allow '*@example.com' --allow webhook:ops
    """
    from tocsin.cli._lint import lint_document, print_lint

    document, problems = lint_document(file, rule_files or (), allow or ())
    for problem in problems:
        note(problem)
    answer(document, print_lint, as_json=as_json)
    return WRONG if document["problems"] else 0


@app.command()
def status(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="One run: s3://bucket/prefix.")
    ] = None,
    actions: Annotated[
        bool, typer.Option("--actions", help="The whole log of alerts and actions, of one run.")
    ] = False,
    state_bucket: Annotated[
        str | None,
        typer.Option(metavar="BUCKET", help="Where the stack keeps what it knows of runs."),
    ] = None,
    table: Table = None,
    topic: Annotated[
        str | None, typer.Option(metavar="ARN", help="The topic that alerts are sent through.")
    ] = None,
    stack: Stack = None,
    as_json: Json = False,
) -> int:
    """Ask the deployed stack: all runs, or one and its alerts.

    Of one: its rules, the silences that cover it, and the last decision for each rule and action:
    what was sent, or why it was not. With --actions it is every decision.

    The state bucket is that of --state-bucket, of the stack --stack, of the environment's
    TOCSIN_STATE_BUCKET, or of the stack named Tocsin; the first that is given. Likewise the table
    (TOCSIN_STATE_TABLE) and the topic (TOCSIN_TOPIC_ARN). Without those the rest is shown.

    Exit code: 0 nothing found (or a list of runs), 1 issues found, 2 the command or its input is
    wrong, a rule ended in Error, or nothing could be judged.

    \b
    Examples:
      tocsin status
      tocsin status s3://bucket/jobs/j1/debug-output --json
      tocsin status s3://bucket/jobs/j1/debug-output --actions
    """
    from functools import partial

    from tocsin.cli._run_status import print_run, run_document, subscription_notes
    from tocsin.cli._stack import BUCKET, TABLE, TOPIC, Deployment
    from tocsin.cli._status import print_runs, runs_document

    deployment = Deployment(stack, {BUCKET: state_bucket, TABLE: table, TOPIC: topic})
    if run is None:
        if actions:
            raise Problem("--actions is about one run: name it")
        runs = runs_document(deployment.find(BUCKET))
        notes(subscription_notes(deployment))
        answer(runs, print_runs, as_json=as_json)
        return 0
    document, said = run_document(run, deployment)
    notes(said)
    answer(document, partial(print_run, whole=actions), as_json=as_json)
    return _exit_code(document)


app.command()(demo)
app.add_typer(silence)
app.add_typer(local)


def _exit_code(document: Document) -> int:
    """1 if any rule fired; else 2, and why, if nothing was judged or a rule is in Error."""
    if any(rule["RuleEvaluationStatus"] == "IssuesFound" for rule in document["rules"]):
        return FOUND
    if nothing_judged(document):
        note(f"nothing could be judged: {why_nothing(document)}")
        return WRONG
    if failed := errors(document):
        note(failed)
        return WRONG
    return 0
