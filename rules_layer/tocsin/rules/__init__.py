"""One file per rule, pure functions of state and step; registry and profiles."""

from tocsin.rules import exploding_tensor, loss_not_decreasing, vanishing_gradient
from tocsin.rules._registry import (
    OPTIONS,
    PROFILES,
    BadRule,
    build,
    defaults,
    find_rule,
    get_rule,
    load_installed,
    register,
    rule_names,
)
from tocsin.rules._rule import (
    HEALTHY,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    violation,
)

__all__ = [
    "HEALTHY",
    "OPTIONS",
    "PROFILES",
    "UNDECIDED",
    "BadRule",
    "Read",
    "Reads",
    "Rule",
    "State",
    "Step",
    "Tensor",
    "build",
    "defaults",
    "exploding_tensor",
    "find_rule",
    "get_rule",
    "load_installed",
    "loss_not_decreasing",
    "not_applicable",
    "register",
    "rule_names",
    "vanishing_gradient",
    "violation",
]
