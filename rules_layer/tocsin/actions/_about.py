"""What a rule says of itself."""

from __future__ import annotations

import inspect
from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """What it means when the rule fires, and what to look at next."""

    meaning: str = ""
    advice: str = ""


def about(rule: str) -> About:
    """Nothing if the rule cannot be found: the e-mail goes out anyway."""
    try:
        from tocsin.rules import find_rule

        found = find_rule(rule)
    except Exception:  # noqa: BLE001 - rules written by others are imported here
        return About()
    if found is None:
        return About()
    return About((inspect.getdoc(found) or "").partition("\n")[0], found.advice)
