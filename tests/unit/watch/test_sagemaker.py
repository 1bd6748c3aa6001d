"""Amazon's DebugRuleConfigurations, as the service and its SDK write them."""

from __future__ import annotations

from typing import Any

import pytest
from tocsin.watch import to_watch
from tocsin.watch.sagemaker import actions, from_debug_rule_configurations

ENDPOINTS = ["stop", "email:abc@abc.com", "sms:+1234567890"]
PLAIN = (
    '[{"name": "stoptraining", "training_job_prefix": "jobname"}, '
    '{"endpoint": "abc@abc.com", "name": "email"}, {"endpoint": "+1234567890", "name": "sms"}]'
)


@pytest.mark.parametrize(
    ("action_json", "expected"),
    [
        (PLAIN, ENDPOINTS),
        (PLAIN.replace('"', '\\"'), ENDPOINTS),
        (f"  {PLAIN}\n", ENDPOINTS),
        (r"[{\"training_job_prefix\": \"my-job\", \"name\": \"stoptraining\"}]", ["stop"]),
        (r"{\"name\": \"stoptraining\", \"training_job_prefix\": \"jobname\"}", ["stop"]),
        ('{"name": "stoptraining"}', ["stop"]),
        (
            '[{"name": "StopTraining"}, {"name": "EMAIL", "endpoint": "Ann@X.Y"}]',
            ["stop", "email:Ann@X.Y"],
        ),
        (
            '{"name": "email", "endpoint": "Ann.Lee+ML@Example.Com"}',
            ["email:Ann.Lee+ML@Example.Com"],
        ),
        ('{"name": "email"}', ["email"]),
        ('{"name": "sms", "endpoint": ""}', ["sms"]),
        ('{"name": "stoptraining", "endpoint": "x"}', ["stop"]),
        ('{"name": "slack", "endpoint": "#ml"}', ["slack"]),
        ('["email"]', ["email"]),
        ("[{}, null, 3]", ["unnamed", "None", "3"]),
        ('["", "stop"]', ["unnamed", "stop"]),
        ('["' + "x" * 1000 + '"]', ["x" * 512]),
        ("[]", []),
        ("email", ["unreadable action_json: email"]),
        ("", ["unreadable action_json: "]),
        ("{'name': 'email'}", ["unreadable action_json: {'name': 'email'}"]),
        ("[" * 100_000, ["unreadable action_json: " + "[" * 80]),
        ("\ud800", ["unreadable action_json: \ud800"]),
    ],
)
def test_actions(action_json: str, expected: list[str]) -> None:
    assert actions(action_json) == expected


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (
            {
                "RuleConfigurationName": "a",
                "RuleParameters": {"rule_to_invoke": "VanishingGradient"},
            },
            {"rule": "VanishingGradient", "name": "a", "parameters": {}},
        ),
        (
            {"RuleConfigurationName": "a", "RuleParameters": {"rule_to_invoke": "R", "x": "1"}},
            {"rule": "R", "name": "a", "parameters": {"x": "1"}},
        ),
        (
            {"RuleParameters": {"rule_to_invoke": "R", "action_json": '{"name": "stoptraining"}'}},
            {"rule": "R", "actions": ["stop"], "parameters": {}},
        ),
        (
            {
                "RuleConfigurationName": "a",
                "RuleParameters": {"rule_to_invoke": "R", "action_json": ""},
            },
            {"rule": "R", "name": "a", "parameters": {}},
        ),
        ({"RuleConfigurationName": "a"}, {"rule": "", "name": "a", "parameters": {}}),
        (
            {"RuleConfigurationName": "a", "RuleParameters": None},
            {"rule": "", "name": "a", "parameters": {}},
        ),
    ],
)
def test_one_configuration(configuration: dict[str, Any], expected: dict[str, Any]) -> None:
    assert from_debug_rule_configurations([configuration]) == {
        "profile": "sagemaker",
        "rules": [expected],
    }


def test_what_came_in_is_not_changed() -> None:
    parameters = {"rule_to_invoke": "R", "action_json": "[]"}
    to_watch([{"RuleConfigurationName": "a", "RuleParameters": parameters}])
    assert parameters == {"rule_to_invoke": "R", "action_json": "[]"}
