"""The commands as they are typed. Only what is typed is imported here: ``--help`` is quick."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console

from tocsin.cli._errors import Problem
from tocsin.cli._group import WRONG, Root
from tocsin.cli._output import Document, answer, note, notes, progress, waiting

app = typer.Typer(
    cls=Root,
    name="tocsin",
    help="Watches training jobs from outside: rules over the tensors that they write.",
    epilog="Example: tocsin check s3://bucket/jobs/j1/debug-output",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
local = typer.Typer(
    cls=Root,
    name="local",
    help="The embedded AWS, on this machine.",
    epilog="Example: tocsin local up",
    rich_markup_mode=None,
)
app.add_typer(local)

FOUND = 1


class Profile(StrEnum):
    recommended = "recommended"
    sagemaker = "sagemaker"


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A local folder or s3://bucket/prefix.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


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
    profile: Annotated[
        Profile | None, typer.Option(help="Whose defaults; goes before the watch file's.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Evaluate rules over a whole run, with the engine of AWS.

    Without --watch and --rule the run's own watch.json counts, and without one every rule
    watches. Rules of --rule join those of --watch, and replace one of the same name.

    In --rule, a part without "=" adds to the list before it, as does a key said again; "\\,"
    is a comma within a value. Beside parameters and engine options there are name, include
    and exclude.

    Exit code: 0 nothing found, 1 issues found, 2 the command or its input is wrong, or a rule
    ended in Error.

    \b
    Examples:
      tocsin check runs/j1
      tocsin check s3://bucket/jobs/j1/debug-output --watch watch.yaml --json
      tocsin check runs/j1 --rule ExplodingTensor:tensor_regex=^loss,^gradient
      tocsin check runs/j1 --rule VanishingGradient:threshold=1e-6,for_steps=1
      tocsin check runs/j1 --rule 'LossNotDecreasing:tensor_regex=^loss_\\d{1\\,2}$'
    """
    from tocsin.cli._check import checked
    from tocsin.cli._place import steps_at, storage_of
    from tocsin.cli._verdicts import print_verdicts
    from tocsin.cli._watch_options import given_watch

    storage = storage_of(run)
    steps = steps_at(storage)
    given = given_watch(watch, rule or (), profile.value if profile else None, storage)
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
    as_json: Json = False,
) -> int:
    """List what was captured: the tensors of complete steps.

    \b
    Examples:
      tocsin tensors runs/j1
      tocsin tensors s3://bucket/jobs/j1/debug-output --regex '^gradient' --json
    """
    from tocsin.cli._place import open_run
    from tocsin.cli._tensors import print_tensors, tensors_document

    found = open_run(run)
    with progress("reading") as advance:
        document = tensors_document(
            found, digest=digest, regex=regex, collection=collection, advance=advance
        )
    answer(document, print_tensors, as_json=as_json)
    return 0


@app.command()
def rules(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One rule.")] = None,
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
        answer(rules_document(), print_rules, as_json=as_json)
    else:
        answer(rule_document(name), print_rule, as_json=as_json)
    return 0


@app.command()
def lint(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A watch file: YAML or JSON.")],
    as_json: Json = False,
) -> int:
    """Check a watch file before a job trains under it.

    Finds unknown rules and parameters, wrong actions and recipients.

    Exit code: 0 nothing is wrong, 2 something is; each problem is a line on stderr.

    \b
    Example:
      tocsin lint watch.yaml
    """
    from tocsin.cli._lint import lint_document, print_lint

    document = lint_document(file)
    for problem in document["problems"]:
        note(f"{file}: {problem}")
    answer(document, print_lint, as_json=as_json)
    return WRONG if document["problems"] else 0


@app.command()
def status(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="One run: s3://bucket/prefix.")
    ] = None,
    state_bucket: Annotated[
        str | None,
        typer.Option(metavar="BUCKET", help="Where the stack keeps what it knows."),
    ] = None,
    stack: Annotated[
        str | None, typer.Option(metavar="NAME", help="The stack to ask for that bucket.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Ask the deployed stack: all runs, or the rules of one.

    The state bucket is that of --state-bucket, of the stack --stack, of the environment's
    TOCSIN_STATE_BUCKET, or of the stack named Tocsin; the first that is given. Alerts will be
    told with a later version.

    Exit code: 0 nothing found (or a list of runs), 1 issues found, 2 the command or its input is
    wrong, or a rule ended in Error.

    \b
    Examples:
      tocsin status
      tocsin status s3://bucket/jobs/j1/debug-output --json
    """
    from tocsin.cli._status import find_bucket, print_runs, run_document, runs_document
    from tocsin.cli._verdicts import print_verdicts

    bucket = find_bucket(state_bucket, stack)
    if run is None:
        answer(runs_document(bucket), print_runs, as_json=as_json)
        return 0
    document = run_document(run, bucket)
    answer(document, print_verdicts, as_json=as_json)
    return _exit_code(document)


@app.command()
def demo(
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME", help="What goes wrong in the training job.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a training job that goes wrong, and see it stopped.

    Runs from a checkout of the project, on the embedded AWS.

    \b
    Example:
      tocsin demo
    """
    module = _checkout("local.demo", "demo")
    name = scenario or next(iter(module.SCENARIOS))
    if name not in module.SCENARIOS:
        raise Problem(f"unknown scenario {name!r}: there are {', '.join(module.SCENARIOS)}")
    document = module.run(name, Console(stderr=as_json), as_json=as_json)
    if as_json:
        answer(document, _silent, as_json=True)
    return 0


@local.command()
def up(as_json: Json = False) -> int:
    """Start the embedded AWS with the stack deployed.

    It runs in the background until `tocsin local down`; where it is up already, that is all.

    \b
    Example:
      tocsin local up
    """
    from tocsin.cli._local import print_up

    background = _checkout("local.background", "local")
    with waiting("starting the embedded AWS …"):
        document = background.up()
    answer(document, print_up, as_json=as_json)
    return 0


@local.command()
def down(as_json: Json = False) -> int:
    """Stop the embedded AWS; what it held is gone.

    \b
    Example:
      tocsin local down
    """
    from tocsin.cli._local import print_down

    background = _checkout("local.background", "local")
    with waiting("stopping the embedded AWS …"):
        document = {"stopped": background.down()}
    answer(document, print_down, as_json=as_json)
    return 0


def _exit_code(document: Document) -> int:
    """1 if any rule fired; 2 if none did but not all could be evaluated."""
    wrong = [rule for rule in document["rules"] if rule["RuleEvaluationStatus"] == "Error"]
    if any(rule["RuleEvaluationStatus"] == "IssuesFound" for rule in document["rules"]):
        return FOUND
    if not wrong:
        return 0
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    note(f"{wrong[0]['RuleConfigurationName']} is in Error: {wrong[0]['StatusDetails']}{more}")
    return WRONG


def _checkout(module: str, command: str) -> Any:
    """A module of the checkout, which no installation has."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name not in ("local", module):
            raise
        raise Problem(f"tocsin {command} runs from a checkout of the project") from missing


def _silent(document: Document, console: Console) -> None:
    """For what has said everything while it ran."""
