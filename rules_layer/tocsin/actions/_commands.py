"""What people can type after an alert, ready to be pasted."""

from __future__ import annotations

import glob
import shlex

from tocsin.actions._ports import Links
from tocsin.actions._request import Request
from tocsin.words import clean

_LONGEST_GLOB = 256  # that a silence takes


def see_more(run: str, links: Links) -> str:
    # Quoted, because people paste it into a shell and others choose the names.
    quoted = shlex.quote(clean(run, 1100))
    dashboard = f"\n  {links.dashboard}" if links.dashboard else ""
    return f"To see more:\n  tocsin status {quoted} --actions\n  tocsin check {quoted}{dashboard}"


def silence(request: Request) -> str:
    """How to silence the rule that leads, and all rules of the job if there are others."""
    job = _pattern(request.job)
    rule = _pattern(request.alert.rule_configuration_name)
    one = f"  tocsin silence add --job {job} --rule {rule} --for 2h --reason '…'"
    if len(request.firing) == 1:
        return f"To silence this for two hours:\n{one}"
    return (
        "To silence the first of them for two hours, or all of the job's rules:\n"
        f"{one}\n  tocsin silence add --job {job} --for 2h --reason '…'"
    )


def _pattern(name: str) -> str:
    """A glob that matches the name, quoted; what cannot be typed is any character."""
    pattern = glob.escape(name)
    if len(pattern) > _LONGEST_GLOB:
        pattern = glob.escape(name[:80]) + "*"
    return shlex.quote("".join(char if char.isprintable() else "?" for char in pattern))
