"""``tocsin rules``: which rules there are."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.options import Json, RuleFiles
from tocsin.cli.output import answer


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
