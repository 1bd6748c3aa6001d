"""Bounds of parameters: declared on the field, checked wherever a rule is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pytest
from tocsin.model import Verdict
from tocsin.rules import (
    HEALTHY,
    BadRule,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    _registry,
    build,
    describe,
    register,
)
from tocsin.rules._parameters import limits, parameters_of

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass(frozen=True)
class Base(Rule):
    def reads(self) -> Reads:
        return Reads({})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return state, HEALTHY


@dataclass(frozen=True)
class Bounded(Base):
    """Something is not as it should be.

    Parameters
    ----------
    limit: how much.
    """

    limit: Annotated[float, Meta(gt=0)] = 1.0
    count: Annotated[int, Meta(ge=1, le=3)] | None = None
    each: tuple[Annotated[float, Meta(ge=0, lt=100)], ...] = (50.0,)
    scale: Annotated[float, Meta(gt=0, extra={"infinite": True})] = math.inf
    named: Annotated[str, "no bounds"] = ""


@dataclass(frozen=True)
class OwnCheck(Bounded):
    """A rule whose check does not call that of its base."""

    def __post_init__(self) -> None:
        if self.count == 2:
            raise ValueError("count is 2, but must be odd")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    register(Bounded)
    register(OwnCheck)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"limit": 0}, "limit is 0, but must be above 0"),
        ({"limit": -0.5}, "limit is -0.5, but must be above 0"),
        ({"limit": math.nan}, "limit is nan, but must be above 0"),
        ({"limit": math.inf}, "limit is inf, but must be finite and above 0"),
        ({"limit": None}, "limit is None, but must be above 0"),
        ({"limit": "1"}, "limit is 1, but must be above 0"),  # a text
        ({"limit": np.float32(-1)}, "limit is -1.0, but must be above 0"),
        ({"count": 0}, "count is 0, but must be from 1 to 3"),
        ({"count": 4}, "count is 4, but must be from 1 to 3"),
        ({"count": 10**400}, f"count is {10**400}, but must be from 1 to 3"),
        ({"each": (1.0, 100.0)}, "each is 100.0, but must be at least 0 and below 100"),
        ({"scale": math.nan}, "scale is nan, but must be above 0"),
        ({"scale": -math.inf}, "scale is -inf, but must be above 0"),
    ],
)
def test_a_rule_that_is_made_in_python(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Bounded(**parameters)
    assert str(caught.value) == f"Bounded: {message}"


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": 5e-324},
        {"limit": 10**400},
        {"limit": np.float64(2)},
        {"count": 1},
        {"count": 3},
        {"count": None},
        {"each": ()},
        {"each": [0, 99.9]},
        {"scale": math.inf},
        {"named": "x"},
    ],
)
def test_within_bounds(parameters: dict[str, Any]) -> None:
    assert Bounded(**parameters)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("Bounded", {"limit": "0"}, "Bounded: limit is 0.0, but must be above 0"),
        ("Bounded", {"limit": "nan"}, "Bounded: limit is nan, but must be above 0"),
        ("Bounded", {"limit": "much"}, "Bounded: parameter limit: expected a number, got a text"),
        ("Bounded", {"count": "9"}, "Bounded: count is 9, but must be from 1 to 3"),
        (
            "Bounded",
            {"each": "1,-1"},
            "Bounded: each is -1.0, but must be at least 0 and below 100",
        ),
        (
            "OwnCheck",
            {"limit": 0},
            "OwnCheck: limit is 0.0, but must be above 0",
        ),
        ("OwnCheck", {"count": 2}, "OwnCheck: count is 2, but must be odd"),
    ],
)
def test_a_rule_of_a_configuration(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule) as caught:
        build(name, parameters)
    assert str(caught.value) == message


def test_types_are_without_bounds() -> None:
    assert {key: it.type for key, it in parameters_of(Bounded).items()} == {
        "limit": float,
        "count": int | None,
        "each": tuple[float, ...],
        "scale": float,
        "named": str,
    }


def test_what_is_said_of_a_parameter_includes_its_bounds() -> None:
    meanings = {
        row["name"]: (row["type"], row["meaning"]) for row in describe("Bounded")["parameters"]
    }
    assert meanings["limit"] == ("number", "how much. Must be above 0.")
    assert meanings["count"] == ("integer or none", "Must be from 1 to 3.")
    assert meanings["named"] == ("text", "")


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (None, ""),
        (Meta(), ""),
        (Meta(gt=0), "above 0"),
        (Meta(ge=1), "at least 1"),
        (Meta(lt=0.5), "below 0.5"),
        (Meta(le=100), "at most 100"),
        (Meta(ge=1, le=32), "from 1 to 32"),
        (Meta(gt=0, le=1), "above 0 and at most 1"),
        (Meta(ge=0, lt=1e-6), "at least 0 and below 1e-06"),
    ],
)
def test_bounds_in_words(bounds: Meta | None, words: str) -> None:
    assert limits(bounds) == words


@dataclass(frozen=True)
class Patterned(Base):
    """A parameter that must match a pattern."""

    name: Annotated[str, Meta(pattern="^a")] = "a"


@dataclass(frozen=True)
class OutOfBounds(Base):
    """A default that is out of its bounds."""

    limit: Annotated[float, Meta(gt=0)] = 0.0


@dataclass(frozen=True)
class InhibitsAText(Base):
    """Its rules are a text in place of a tuple."""

    inhibits = "LossSpike"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Patterned, "rule Patterned: parameter name: Meta takes gt, ge, lt and le here"),
        (OutOfBounds, "rule OutOfBounds: limit is 0.0, but must be above 0"),
        (
            InhibitsAText,
            "rule InhibitsAText: inhibits is a text, but must be a tuple",
        ),
    ],
)
def test_registering_refuses(rule: type[Rule], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        register(rule)
    assert str(caught.value).startswith(message)


def test_a_rule_whose_types_are_unknown_can_be_made_but_not_registered() -> None:
    @dataclass(frozen=True)
    class Unknown(Base):
        """A parameter whose type is there for type checkers only."""

        limit: Decimal | None = None

    assert Unknown()
    with pytest.raises(TypeError, match="rule Unknown: name 'Decimal' is not defined"):
        register(Unknown)
