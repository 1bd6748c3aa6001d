"""The role of a scalar by its name, and which scalars are of an evaluation."""

from __future__ import annotations

import re

from tocsin.model import Role

_PHASE = re.compile(
    r"(?<![A-Za-z0-9])(?:(train(?:ing)?)|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)(?:_\d+)?"
    r"(?=[/_.\- ]|$)",
    re.IGNORECASE,
)
_EDGES = "/_.- "
_LEARNING_RATE = re.compile(r"(?:^|[/_.\- ])(?:lr|learning_?rate)(?![a-z])", re.IGNORECASE)
_LOSS = re.compile(
    r"loss(?!_?(?:scale|weight|coef))|(?<![a-z])(?:m?error|nll|perplexity|ppl|r?mse|rmsle|mae|mape|"
    r"cross_?entropy|deviance)(?![a-z])",
    re.IGNORECASE,
)


def with_phase_first(name: str) -> str:
    """A name whose phase stands first, as rules compare losses: ``Loss/val`` is ``val/Loss``."""
    found = _PHASE.search(name)
    if found is None or found.start() == 0:
        return name
    rest = (name[: found.start()].rstrip(_EDGES), name[found.end() :].lstrip(_EDGES))
    return "/".join((found[0], *filter(None, rest)))


def is_of_evaluation(name: str) -> bool:
    """Whether the first phase in a name is another than training."""
    found = _PHASE.search(name)
    return found is not None and found[1] is None


def role_of(name: str) -> Role:
    """The role of a scalar.

    A loss of an evaluation is a metric of its step: rules that compare training with evaluation
    find it by its name, and rules about the training's loss leave it alone. So is everything that
    is neither a loss nor a learning rate: a norm of gradients is a number, not a gradient.
    """
    if _LEARNING_RATE.search(name):
        return Role.LEARNING_RATE
    return Role.LOSS if _LOSS.search(name) and not is_of_evaluation(name) else Role.METRIC
