"""``tocsin rules``: what rules there are, and all there is to know of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tocsin.cli._installed import load_rules
from tocsin.cli._output import Document
from tocsin.rules import describe, get_rule, rule_names, summary


def rules_document(files: Sequence[str | Path] = ()) -> Document:
    """The JSON of ``tocsin rules``, with the rules of ``files``."""
    load_rules(files)
    return {"rules": [{"name": name, "summary": summary(get_rule(name))} for name in rule_names()]}


def rule_document(name: str, files: Sequence[str | Path] = ()) -> Document:
    """The JSON of ``tocsin rules NAME``. Raises BadRule for a name that nobody knows."""
    load_rules(files)
    return describe(name)
