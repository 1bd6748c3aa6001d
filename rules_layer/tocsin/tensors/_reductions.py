"""Reductions: tensors that are one number about another tensor."""

from __future__ import annotations

import re

_MARK = "smdebug/reductions/"
_NAME = re.compile(r"(?P<name>(?:abs_)?[a-z0-9]+)/(?P<base>.+)", re.DOTALL)


def parse_reduction(name: str) -> tuple[str, str] | None:
    """``("abs_mean", "fc.weight")`` for ``smdebug/reductions/abs_mean/fc.weight``, else None."""
    _, mark, rest = name.partition(_MARK)
    match = _NAME.fullmatch(rest) if mark else None
    return (match["name"], match["base"]) if match else None


def base_name(name: str) -> str:
    """The tensor that a reduction is of; any other name as it is."""
    reduction = parse_reduction(name)
    return reduction[1] if reduction else name


def reduction_name(reduction: str, tensor: str) -> str:
    """The name that smdebug gives a reduction, for example ``abs_mean`` of ``fc.weight``."""
    return f"{_MARK}{reduction}/{re.sub(r':[0-9]+', '', tensor)}"
