from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions._notice import attributes


def test_of_an_alert(ask: Any) -> None:
    firing = [{"Severity": "info"}, {"Severity": "critical", "RuleConfigurationName": "b"}]
    assert attributes(ask("email:a@example.com", *firing)) == {
        "action": "email:a@example.com",
        "job": "j1",
        "rule": "VanishingGradient",
        "severity": "critical",
        "status": "IssuesFound",
    }


def test_of_what_is_over(ask: Any, make_alert: Any) -> None:
    over = make_alert(RuleEvaluationStatus="InProgress")
    assert attributes(ask("sms", resolved=(over,)))["status"] == "InProgress"


@pytest.mark.parametrize(("status", "more"), [("Error", {"status": "Error"}), (None, {})])
def test_of_a_jobs_end(ask: Any, make_summary: Any, status: str | None, more: Any) -> None:
    summary = make_summary(RuleEvaluationStatus=status)
    assert attributes(ask("email", summary=summary)) == {"action": "email", "job": "j1", **more}


def test_what_is_empty_is_left_out_for_sns_refuses_it(ask: Any) -> None:
    odd = {"RuleConfigurationName": "\x00", "TrainingJobName": "\u202e"}
    assert set(attributes(ask("email", odd))) == {"action", "severity", "status"}
