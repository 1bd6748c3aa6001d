"""The options of a deployment, from CDK context."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ROLE = r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+"


@dataclass(frozen=True)
class RelaunchOptions:
    """``rules`` are RuleConfigurationNames, ``roles`` the ARNs of training roles.

    A job is started again at most ``most`` times, each time with ``parameter`` times ``factor``.
    """

    rules: tuple[str, ...]
    roles: tuple[str, ...]
    parameter: str = "learning-rate"
    factor: float = 0.1
    most: int = 2
    bus: str = "tocsin"


def read_options(context: Mapping[str, Any]) -> RelaunchOptions:
    """Reads the options from CDK context. Raises ValueError that says which is wrong."""

    def text(key: str, pattern: str, valid: str, default: str | None = None) -> str:
        value = str(context.get(key, default or ""))
        if not re.fullmatch(pattern, value):
            raise ValueError(f"option {key} is {value!r}, but must be {valid}: -c {key}=…")
        return value

    def each(key: str, pattern: str, valid: str) -> tuple[str, ...]:
        several = rf"{pattern}(,{pattern})*"
        return tuple(text(key, several, f"{valid}, or several with commas between").split(","))

    factor = text("factor", r"0?\.\d{1,9}", "between 0 and 1", "0.1")
    if float(factor) == 0:
        raise ValueError("option factor is 0: nothing would be learned")
    return RelaunchOptions(
        rules=each("rules", r"[^,]+", "the name of a rule that stops jobs"),
        roles=each("roles", _ROLE, "the ARN of a role that training jobs have"),
        parameter=text(
            "parameter", r"[\w.-]+", "a hyper-parameter's name", RelaunchOptions.parameter
        ),
        factor=float(factor),
        most=int(text("most", "[1-9]", "1 to 9", str(RelaunchOptions.most))),
        bus=text("bus", r"[\w./-]+", "the bus of the deployment", RelaunchOptions.bus),
    )
