from __future__ import annotations

from typing import Any

from tocsin.actions.email_parts import MOST_BYTES
from tocsin.actions.summary_email import summary_email


def test_says_the_last_status_of_every_rule(make_summary: Any, world: Any) -> None:
    assert summary_email(make_summary(), world.lookups) == (
        """\
Training job j1 has ended: IssuesFound.

Job:      j1
Run:      s3://captures/jobs/j1/debug-output
Ended by: its end marker
Steps:    12 evaluated, from 10 to 120
Time:     2026-01-02T03:04:05Z

IssuesFound:
  Overfit: loss of EVAL grows

NoIssuesFound: AllZero

NotApplicable: TreeDepth

To see more:
  tocsin status s3://captures/jobs/j1/debug-output --actions
  tocsin check s3://captures/jobs/j1/debug-output
"""
    )


def test_a_run_of_which_little_is_known(make_summary: Any, world: Any) -> None:
    bare = {"Ending": "", "Steps": {}, "EvaluatedAt": None, "RuleEvaluationStatus": None}
    text = summary_email(make_summary(**bare, DebugRuleEvaluationStatuses=[]), world.lookups)
    assert text.startswith("Training job j1 has ended.\n\n")
    assert "Steps:    0 evaluated\n" in text


def test_says_what_was_not_run(make_summary: Any, world: Any) -> None:
    text = summary_email(make_summary(NotRun={"Steps": 9, "Hours": 2.0}), world.lookups)
    assert "\nNot run:  9 planned steps, 2 hours, at an unknown price\n" in text


def test_many_rules_are_counted_and_fit(make_summary: Any, world: Any) -> None:
    rules = [
        {
            "RuleConfigurationName": f"{number}" + "実" * 1000,
            "RuleEvaluationStatus": status,
            "StatusDetails": "験\n" * 2_000,
        }
        for number in range(100)
        for status in ("IssuesFound", "Error", "NoIssuesFound", "Stopped", "InProgress")
    ]
    text = summary_email(make_summary(DebugRuleEvaluationStatuses=rules), world.lookups)
    assert len(text.encode()) <= MOST_BYTES
    assert "\n  and 60 more\n" in text
    assert text.replace("\n", "").isprintable()
    assert "tocsin status s3://captures/jobs/j1/debug-output --actions" in text
