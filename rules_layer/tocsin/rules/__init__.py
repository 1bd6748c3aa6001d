"""One file per rule, in packages by what they read: pure functions of state and step.

The registry finds a rule by its name and loads it when it is asked for.
"""

from msgspec import Meta

from tocsin.rules._advice import advice_for, page_of
from tocsin.rules._describe import OPTION_MEANINGS, describe, summary
from tocsin.rules._loss_names import classify_loss
from tocsin.rules._parameters import BadRule
from tocsin.rules._registry import (
    ENTRY_POINTS,
    OPTIONS,
    build,
    defaults,
    find_rule,
    forget,
    get_rule,
    load_packages,
    locate,
    register,
    register_style,
    rule_names,
)
from tocsin.rules._rule import (
    MACHINE,
    PROFILES,
    RECOMMENDED,
    SAGEMAKER,
    TRAINING,
    Baseline,
    Observation,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    tensor_key,
)
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation

__all__ = [
    "ENTRY_POINTS",
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
    "classify_loss",
    "defaults",
    "describe",
    "find_rule",
    "forget",
    "get_rule",
    "load_packages",
    "measured",
    "not_applicable",
    "page_of",
    "register",
    "register_style",
    "rule_names",
    "summary",
    "tensor_key",
    "violation",
]

locate(__name__, __path__)
