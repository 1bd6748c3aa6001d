"""One file per rule, in packages by what they read: pure functions of state and step.

The registry finds a rule by its name and loads it when it is asked for.
"""

from msgspec import Meta

from tocsin.rules._advice import advice_for
from tocsin.rules._describe import OPTION_MEANINGS, describe, summary
from tocsin.rules._parameters import BadRule
from tocsin.rules._registry import (
    OPTIONS,
    build,
    defaults,
    find_rule,
    forget,
    get_rule,
    locate,
    register,
    register_style,
    rule_names,
)
from tocsin.rules._rule import (
    HEALTHY,
    MACHINE,
    PROFILES,
    RECOMMENDED,
    SAGEMAKER,
    TRAINING,
    UNDECIDED,
    Baseline,
    Observation,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    tensor_key,
    violation,
)

__all__ = [
    "HEALTHY",
    "MACHINE",
    "OPTIONS",
    "OPTION_MEANINGS",
    "PROFILES",
    "RECOMMENDED",
    "SAGEMAKER",
    "TRAINING",
    "UNDECIDED",
    "BadRule",
    "Baseline",
    "Meta",
    "Observation",
    "Read",
    "Reads",
    "Rule",
    "State",
    "Step",
    "Tensor",
    "advice_for",
    "build",
    "defaults",
    "describe",
    "find_rule",
    "forget",
    "get_rule",
    "measured",
    "not_applicable",
    "register",
    "register_style",
    "rule_names",
    "summary",
    "tensor_key",
    "violation",
]

locate(__name__, __path__)
