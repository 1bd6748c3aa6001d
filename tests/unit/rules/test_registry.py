from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tocsin import rules
from tocsin.model import Verdict
from tocsin.rules import (
    HEALTHY,
    BadRule,
    Reads,
    Rule,
    State,
    Step,
    _registry,
    build,
    defaults,
    find_rule,
    get_rule,
    register,
    register_style,
    rule_names,
)
from tocsin.rules.gradients.exploding_tensor import ExplodingTensor

if TYPE_CHECKING:
    from decimal import Decimal


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))


@dataclass(frozen=True)
class Base(Rule):
    def reads(self) -> Reads:
        return Reads({})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return state, HEALTHY


@dataclass(frozen=True)
class Good(Base):
    """Something is not as it should be."""

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2, "every": 5}
    sagemaker: ClassVar[Mapping[str, Any]] = {"limit": 7, "resolve": 3}

    limit: int = 3
    ratio: float | None = None
    names: tuple[str, ...] = ()


def test_a_registered_rule_is_found() -> None:
    assert find_rule("Good") is None
    assert register(Good) is Good
    assert find_rule("Good") is Good
    assert get_rule("Good") is Good
    assert "Good" in rule_names()
    assert list(rule_names()) == sorted(rule_names())


def test_the_same_module_may_be_loaded_again() -> None:
    register(Good)
    again: type[Rule] = type("Good", (Good,), {"__doc__": "Once more."})
    again = dataclass(frozen=True)(again)
    again.__module__ = Good.__module__
    assert register(again) is again


class NotDecorated(Base):
    """Has fields, but no decorator to make parameters of them."""

    limit: int = 3


class NotDecoratedAndNotARule:
    """Nothing of what it takes."""


@dataclass(frozen=True)
class NotARule:
    """A dataclass, but not a rule."""


@dataclass(frozen=True)
class NoDocstring(Base):
    limit: int = 3


@dataclass(frozen=True)
class NoDefault(Base):
    """A parameter without a default."""

    limit: int


@dataclass(frozen=True)
class DefaultFactory(Base):
    """A parameter whose default is made each time."""

    names: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class UnknownInSagemaker(Base):
    """A profile that sets what there is not."""

    sagemaker: ClassVar[Mapping[str, Any]] = {"limits": 3}


@dataclass(frozen=True)
class UnknownOption(Base):
    """An option that the engine does not have."""

    options: ClassVar[Mapping[str, Any]] = {"for_step": 3}


@dataclass(frozen=True)
class UnknownAlternative(Base):
    """A group with a parameter that there is not."""

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (("names", "name"),)

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Positive(Base):
    """A rule with a check of its own."""

    limit: int = 1

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit is {self.limit}, but must be at least 1")


@dataclass(frozen=True)
class RefusedDefault(Positive):
    """A default that its own check refuses."""

    limit: int = 0


@dataclass(frozen=True)
class RefusedSagemaker(Positive):
    """The same, of the other profile."""

    sagemaker: ClassVar[Mapping[str, Any]] = {"limit": -1}


@dataclass(frozen=True)
class UnknownType(Base):
    """A parameter whose type is there for type checkers only."""

    limit: Decimal | None = None


@dataclass(frozen=True)
class Abstract(Rule):
    """Does not say how it judges."""

    def reads(self) -> Reads:
        return Reads({})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (NotDecorated, "rule NotDecorated: must derive from Rule and be a dataclass"),
        (NotDecoratedAndNotARule, "rule NotDecoratedAndNotARule: must derive from Rule"),
        (NotARule, "rule NotARule: must derive from Rule"),
        (NoDocstring, "rule NoDocstring: needs a docstring"),
        (NoDefault, "rule NoDefault: parameter limit needs a default"),
        (DefaultFactory, "rule DefaultFactory: parameter names needs a default"),
        (UnknownInSagemaker, "rule UnknownInSagemaker: 'limits' is neither a parameter nor"),
        (UnknownOption, "rule UnknownOption: 'for_step' is neither a parameter nor"),
        (UnknownAlternative, "rule UnknownAlternative: 'name' is neither a parameter nor"),
        (RefusedDefault, "rule RefusedDefault: limit is 0, but must be at least 1"),
        (RefusedSagemaker, "rule RefusedSagemaker: limit is -1, but must be at least 1"),
        (UnknownType, "rule UnknownType: name 'Decimal' is not defined"),
        (Abstract, "abstract"),
    ],
)
def test_not_well_formed(rule: type[Rule], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        register(rule)
    assert message in str(caught.value)
    assert find_rule(rule.__name__) is None


def test_a_rule_that_is_not_frozen_cannot_even_be_written() -> None:
    with pytest.raises(TypeError, match="frozen"):

        @register
        @dataclass
        class Thawed(Base):  # type: ignore[misc]
            """Parameters that could change."""


def test_another_rule_of_the_same_name() -> None:
    @dataclass(frozen=True)
    class ExplodingTensor(Base):
        """Written by somebody else."""

    other = ExplodingTensor
    with pytest.raises(TypeError, match="another rule is registered under this name"):
        register(other)
    other.__qualname__ = "ExplodingTensor"  # as if at the top of a module
    with pytest.raises(TypeError, match="another rule is registered under this name"):
        register(other)
    assert get_rule("ExplodingTensor").__module__ == "tocsin.rules.gradients.exploding_tensor"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("recommended", {"limit": 3, "ratio": None, "names": (), "for_steps": 2, "every": 5}),
        ("sagemaker", {"limit": 7, "ratio": None, "names": (), "resolve": 3}),
    ],
)
def test_defaults_by_profile(profile: str, expected: dict[str, Any]) -> None:
    assert defaults(Good, profile) == expected


@pytest.mark.parametrize("name", ["", "Recommended", "amazon"])
def test_unknown_profile(name: str) -> None:
    with pytest.raises(BadRule, match=r"unknown profile .* use recommended or sagemaker"):
        defaults(Good, name)
    with pytest.raises(BadRule, match="unknown profile"):
        build("ExplodingTensor", {}, name)


@pytest.mark.parametrize(
    ("profile", "parameters", "rule", "options"),
    [
        ("recommended", {}, Good(), {"for_steps": 2, "every": 5}),
        ("sagemaker", {}, Good(7), {"resolve": 3}),
        ("sagemaker", {"limit": "1", "resolve": "9"}, Good(1), {"resolve": "9"}),
        (
            "sagemaker",
            {"mode": "EVAL", "grace": "30s"},
            Good(7),
            {"resolve": 3, "mode": "EVAL", "grace": "30s"},
        ),
        ("sagemaker", {"limit": 2.0, "ratio": "0.5"}, Good(2, 0.5), {"resolve": 3}),
        (
            "sagemaker",
            {"ratio": "None", "names": " a ,b,, "},
            Good(7, None, ("a", "b")),
            {"resolve": 3},
        ),
        ("sagemaker", {"ratio": "", "names": ["a,b"]}, Good(7, None, ("a,b",)), {"resolve": 3}),
        ("sagemaker", {"ratio": None, "names": ()}, Good(7), {"resolve": 3}),
        (
            "sagemaker",
            {"base_trial": "x", "source_s3_uri": "y", "action_json": "z"},
            Good(7),
            {"resolve": 3},
        ),
    ],
)
def test_build(
    profile: str, parameters: dict[str, Any], rule: Rule, options: dict[str, Any]
) -> None:
    register(Good)
    assert build("Good", parameters, profile) == (rule, options)


@dataclass(frozen=True)
class Naming(Base):
    """Two parameters name the same tensors, and each has a default."""

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (("names", "collection"),)
    sagemaker: ClassVar[Mapping[str, Any]] = {"collection": "losses"}

    names: tuple[str, ...] = ("loss",)
    collection: str | None = None
    other: str | None = "x"


@pytest.mark.parametrize(
    ("profile", "parameters", "rule"),
    [
        ("recommended", {}, Naming()),
        ("sagemaker", {}, Naming(("loss",), "losses")),
        ("recommended", {"collection": "mine"}, Naming((), "mine")),
        ("sagemaker", {"collection": "mine"}, Naming((), "mine")),
        ("sagemaker", {"names": "mine"}, Naming(("mine",), None)),
        ("sagemaker", {"names": "a", "collection": "b"}, Naming(("a",), "b")),
        ("sagemaker", {"collection": "None"}, Naming(("loss",), None)),  # names nothing
        ("sagemaker", {"other": "y"}, Naming(("loss",), "losses", "y")),
    ],
)
def test_what_a_user_names_replaces_the_defaults_of_its_group(
    profile: str, parameters: dict[str, Any], rule: Rule
) -> None:
    register(Naming)
    assert build("Naming", parameters, profile) == (rule, {})


UNKNOWN = "Good: unknown parameter {!r}: `tocsin rules Good` lists them"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("", {}, "unknown rule '': `tocsin rules` lists them"),
        ("VanishingGrad", {}, "unknown rule 'VanishingGrad': did you mean VanishingGradient?"),
        ("Sorcery", {}, "unknown rule 'Sorcery': `tocsin rules` lists them"),
        ("two\nlines", {}, "unknown rule 'two\\nlines': `tocsin rules` lists them"),
        ("Good", {"limits": 1}, "Good: unknown parameter 'limits': did you mean limit?"),
        ("Good", {"for_step": 1}, "Good: unknown parameter 'for_step': did you mean for_steps?"),
        ("Good", {"other_trial_0": "x"}, UNKNOWN.format("other_trial_0")),
        ("Good", {"options": {}}, UNKNOWN.format("options")),
        ("Good", {"limit": "three"}, "Good: parameter limit: expected a whole number, got a text"),
        ("Good", {"limit": ""}, "Good: parameter limit: expected a whole number, got a text"),
        ("Good", {"names": {"a": 1}}, "Good: parameter names: expected a list, got a mapping"),
        ("Positive", {"limit": "0"}, "Positive: limit is 0, but must be at least 1"),
    ],
)
def test_build_refuses(name: str, parameters: dict[str, Any], message: str) -> None:
    register(Good)
    register(Positive)
    with pytest.raises(BadRule) as caught:
        build(name, parameters)
    assert str(caught.value) == message


def test_every_module_without_an_underscore_is_a_rule() -> None:
    modules = {path.stem for path in Path(rules.__file__).parent.rglob("[!_]*.py")}
    found = {get_rule(name).__module__.rpartition(".")[2] for name in rule_names()}
    assert found == modules
    assert list(rule_names()) == sorted(rule_names())


def test_a_style_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_styles", dict(_registry._styles))

    class Style:
        pass

    class Styled(Style):
        pass

    with pytest.raises(TypeError, match="rule Styled: must derive from Rule"):
        register(Styled)  # type: ignore[type-var]
    register_style(Style, lambda given: Good)
    assert register(Styled) is Styled  # type: ignore[type-var]
    assert find_rule("Styled") is Good


def test_the_built_in_rules_are_there() -> None:
    assert {"ExplodingTensor", "LossNotDecreasing", "VanishingGradient"} <= set(rule_names())
    assert find_rule("ExplodingTensor") is ExplodingTensor


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"other_trial": "a"}, ("a",)),
        ({"other_trials": "a,b"}, ("a", "b")),
        ({"other_trial_1": "b", "other_trial_0": "a", "other_trial_10": "c"}, ("a", "b", "c")),
    ],
)
def test_lists_as_the_sdk_sends_them(sent: dict[str, str], expected: tuple[str, ...]) -> None:
    rule, _ = build("SimilarAcrossRuns", sent)
    assert rule.other_trials == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rule", "parameter", "value", "expected"),
    [
        ("AllZero", "tensor_regex", "None", ()),
        ("AllZero", "tensor_regex", "", ()),
        ("AllZero", "tensor_regex", "(a|b)", ("(a|b)",)),
        ("SaturatedActivation", "threshold_tanh", "(-9.4999, 9.4999)", (-9.4999, 9.4999)),
        ("SaturatedActivation", "threshold_sigmoid", "-23,16.99999", (-23.0, 16.99999)),
    ],
)
def test_lists_on_the_wire(rule: str, parameter: str, value: str, expected: Any) -> None:
    built, _ = build(rule, {parameter: value})
    assert getattr(built, parameter) == expected


def test_a_rule_is_loaded_when_it_is_asked_for() -> None:
    code = (
        "import sys; from tocsin.rules import get_rule; get_rule('DeadRelu');"
        "names = [m for m in sys.modules if m.startswith('tocsin.rules.') and '._' not in m];"
        "print(sorted(m for m in names if m.count('.') == 3))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['tocsin.rules.layers.dead_relu']"
