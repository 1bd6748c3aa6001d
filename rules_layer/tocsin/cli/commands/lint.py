"""``tocsin lint``: whether a watch file is right."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.errors import WRONG
from tocsin.cli.options import Json, RuleFiles
from tocsin.cli.output import answer, note


def lint(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A watch file: YAML or JSON.")],
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECIPIENT",
            help="A recipient that the deployment allows: an address, *@example.com, a phone "
            "number or webhook:NAME. Repeatable.",
        ),
    ] = None,
    rule_files: RuleFiles = None,
    as_json: Json = False,
) -> int:
    """Check a watch file before a job uses it.

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
