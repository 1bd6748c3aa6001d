"""What is inhibited by what; that in every circle somebody speaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.alerts import AlertGroup, Hold, RuleAlert
from tocsin.alerts.inhibit import inhibit, suppressed
from tocsin.alerts.stage import Batch, View
from tocsin.rules import get_rule, rule_names

from tests.unit.alerts.world import alert


@pytest.mark.parametrize(
    ("edges", "by"),
    [
        pytest.param({}, {}, id="nothing fires"),
        pytest.param({"a": ""}, {}, id="one alone"),
        pytest.param({"a": "b", "b": ""}, {"b": "a"}, id="one inhibits another"),
        pytest.param({"b": "", "a": "b"}, {"b": "a"}, id="which fired before"),
        pytest.param({"a": "b", "b": "c", "c": ""}, {"b": "a", "c": "b"}, id="a chain"),
        pytest.param({"a": "x"}, {}, id="of what does not fire"),
        pytest.param({"a": "b", "b": "a"}, {"b": "a"}, id="each other: the first speaks"),
        pytest.param({"b": "a", "a": "b"}, {"a": "b"}, id="each other, the other way"),
        pytest.param({"a": "b", "b": "c", "c": "a"}, {"b": "a", "c": "b"}, id="in a circle"),
        pytest.param(
            {"a": "b", "b": "a", "c": "a"}, {"a": "c", "b": "a"}, id="a circle, one above it"
        ),
        pytest.param({"a": "a"}, {}, id="itself"),
    ],
)
def test_who_is_inhibited_by_whom(edges: dict[str, str], by: dict[str, str]) -> None:
    assert suppressed({rule: frozenset(whom) for rule, whom in edges.items()}) == by


RULES = st.sampled_from("abcdef")


@given(st.dictionaries(RULES, st.frozensets(RULES)))
def test_in_every_circle_one_rule_is_not_inhibited(edges: dict[str, frozenset[str]]) -> None:
    by = suppressed(edges)
    for rule in edges:
        for _ in edges:
            assert by.get(rule) != rule
            rule = by.get(rule, rule)
        assert rule not in by
    for rule, source in by.items():
        assert rule in edges[source]


def batch_of(*alerts: object, action: str = "email") -> tuple[Batch, View]:
    notes = {each.rule_configuration_name: RuleAlert(each, 0.0) for each in alerts}  # type: ignore[attr-defined]  # alerts, made below
    group = AlertGroup("s3://b/r", alerts=notes)
    firing = {rule: note for rule, note in group.firing.items() if action in note.alert.actions}
    return Batch(action, firing, {}), View(group, (), 0.0)


def test_a_declared_inhibition_says_by_whom() -> None:
    batch = inhibit(*batch_of(alert("A", Inhibits=["B"]), alert("B")))
    assert list(batch.firing) == ["A"]
    (held,) = batch.held
    assert (held.rule, held.reason, held.detail) == ("B", Hold.INHIBITED, "while A fires")


def test_what_is_declared_holds_whatever_the_other_one_does() -> None:
    assert inhibit(*batch_of(alert("A", Inhibits=["B"], Actions=["stop"]), alert("B"))).firing == {}


def test_nan_speaks_for_the_losses() -> None:
    nan = alert("nan", Rule="ExplodingTensor")
    loss = alert("loss", Rule="LossNotDecreasing")
    assert list(inhibit(*batch_of(nan, loss)).firing) == ["nan"]


def test_but_only_if_the_same_action_notifies_of_both() -> None:
    nan = alert("nan", Rule="ExplodingTensor", Actions=["stop"])
    loss = alert("loss", Rule="LossNotDecreasing")
    assert list(inhibit(*batch_of(nan, loss)).firing) == ["loss"]


@pytest.mark.parametrize("first_seen", ["A", "B"])
def test_of_two_that_inhibit_each_other_the_first_to_fire_speaks(first_seen: str) -> None:
    both = [alert("A", Inhibits=["B"], Sequence=1), alert("B", Inhibits=["A"], Sequence=2)]
    both.sort(key=lambda each: each.rule != first_seen)
    assert list(inhibit(*batch_of(*both)).firing) == ["A"]


def test_a_resolved_rule_inhibits_nothing() -> None:
    resolved = alert("A", firing=False, Inhibits=["B"])
    assert "B" in inhibit(*batch_of(resolved, alert("B"))).firing


def test_what_explains_another_speaks_for_it_unless_that_is_worse() -> None:
    rate = alert("rate", Rule="LearningRateTooLarge")
    loss = alert("loss", Rule="LossNotDecreasing")
    nan = alert("nan", Rule="ExplodingTensor", Severity="critical")
    assert list(inhibit(*batch_of(rate, loss)).firing) == ["rate"]
    assert set(inhibit(*batch_of(rate, nan)).firing) == {"rate", "nan"}


def test_what_began_earlier_is_not_explained_by_a_nan() -> None:
    nan = alert("nan", Rule="ExplodingTensor", Severity="critical", Step=9)
    loss = alert("loss", Rule="LossNotDecreasing", Step=3)
    assert set(inhibit(*batch_of(nan, loss)).firing) == {"nan", "loss"}


def test_only_custom_rules_declare_whom_they_inhibit() -> None:
    assert not [name for name in rule_names() if get_rule(name).inhibits]


@pytest.mark.parametrize("inhibits", [None, "B", 3, ["B"]])
def test_a_class_that_says_nonsense_inhibits_nothing(
    monkeypatch: pytest.MonkeyPatch, inhibits: object
) -> None:
    monkeypatch.setattr(get_rule("VanishingGradient"), "inhibits", inhibits)
    both = alert("A", Rule="VanishingGradient"), alert("B")
    assert set(inhibit(*batch_of(*both)).firing) == {"A", "B"}


def test_a_rule_of_an_unknown_class_inhibits_nothing_by_default() -> None:
    both = alert("A", Rule="NotInstalledHere"), alert("B", Rule="LossSpike")
    assert set(inhibit(*batch_of(*both)).firing) == {"A", "B"}
