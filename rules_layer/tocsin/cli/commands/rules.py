"""``tocsin rules``: which rules there are."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.errors import CommandError
from tocsin.cli.options import Json, RuleFiles
from tocsin.cli.output import answer


def rules(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One rule.")] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only rules whose name or description has these words."),
    ] = None,
    rule_files: RuleFiles = None,
    as_json: Json = False,
) -> int:
    """List the rules, or explain one of them.

    For one rule: its parameters, defaults per profile, what it reads and what fires it.

    \b
    Examples:
      tocsin rules
      tocsin rules LossNotDecreasing
      tocsin rules --search "learning rate"
    """
    from tocsin.cli.rules import print_rule, print_rules, rule_document, rules_document

    if name is not None and search is not None:
        raise CommandError("NAME and --search: choose one")
    if name is None:
        answer(rules_document(rule_files or (), search or ""), print_rules, as_json=as_json)
    else:
        answer(rule_document(name, rule_files or ()), print_rule, as_json=as_json)
    return 0
