from __future__ import annotations

from typing import Any

import pytest
from tocsin.watch import Fault, alert_faults, faults, to_watch

LOSS = {"rule": "LossNotDecreasing", "name": "loss"}


def found(*rules: Any, **top: Any) -> list[Fault]:
    return list(faults(to_watch({"rules": rules, **top})))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        ("Overfitt", ("rule",), "unknown rule 'Overfitt': did you mean Overfit?"),
        ({**LOSS, "parameters": {"num_step": 5}}, ("parameters", "num_step"), "unknown parameter"),
        ({**LOSS, "parameters": {"num_steps": "x"}}, ("parameters", "num_steps"), "parameter"),
        ({**LOSS, "parameters": {"diff_percent": 200}}, ("parameters", "diff_percent"), "200"),
        ({**LOSS, "parameters": {"every": 0}}, ("parameters", "every"), "every is 0"),
        ({**LOSS, "for_steps": 0}, ("for_steps",), "for_steps is 0"),
        ({**LOSS, "include": "("}, ("include",), "not a regular expression"),
        ({**LOSS, "grace": "soon"}, ("grace",), "grace is 'soon'"),
        ({**LOSS, "actions": ["email", "emial"]}, ("actions", 1), "did you mean email?"),
        ({**LOSS, "inhibits": ["Overfit"]}, ("inhibits", 0), "no rule of this file is named"),
        ({**LOSS, "inhibits": ["V", "loss"]}, ("inhibits", 1), "cannot inhibit itself"),
    ],
)
def test_faults_of_a_rule_and_where_they_stand(rule: Any, path: tuple[Any, ...], text: str) -> None:
    first = {"rule": "VanishingGradient", "name": "V"}
    (fault,) = found(first, rule)
    assert fault.path == ("rules", 1, *path)
    assert text in fault.text


def test_every_unknown_parameter_is_told() -> None:
    found_faults = found({**LOSS, "parameters": {"a": 1, "b": 2, "diff_percent": 200}})
    assert [fault.path[-1] for fault in found_faults] == ["a", "b", "diff_percent"]


def test_what_stands_beside_the_rules() -> None:
    capture = {"collections": {"any name": {"include_regex": ["^w", "("]}}}
    found_faults = found(actions=["stop:now"], capture=capture, notify={"repeat_interval": 0})
    assert [fault.place for fault in found_faults] == [
        "actions[0]",
        "notify.repeat_interval",
        "capture.collections['any name'].include_regex",
    ]


def test_faults_of_alerts_alone() -> None:
    watch = to_watch({"rules": ["Overfitt", {**LOSS, "actions": ["emial"], "inhibits": ["x"]}]})
    assert [fault.place for fault in alert_faults(watch)] == [
        "rules[1].actions[0]",
        "rules[1].inhibits[0]",
    ]
