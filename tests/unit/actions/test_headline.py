from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import ActionOutcome, Result
from tocsin.actions.headline import severity, short, subject
from tocsin.model import Severity

STOPPED = Result(ActionOutcome.DONE, "asked SageMaker to stop training job j1")


def test_one_alert(ask: Any) -> None:
    request = ask("email", stop=STOPPED)
    assert subject(request) == "Tocsin warning: VanishingGradient in j1 at step 120; stop requested"
    assert (
        short(request)
        == "Tocsin: VanishingGradient in j1 at step 120. Stop requested. abs_mean = 3.1e-09"
    )


@pytest.mark.parametrize(
    ("good", "said"),
    [
        ({"FirstSign": 25, "Step": 24}, "Last good step 24."),
        (
            {"FirstSign": 25, "Step": 24, "Checkpoint": "s3://b/19.pt", "CheckpointStep": 19},
            "Last good step 24, checkpoint 19.",
        ),
    ],
)
def test_an_sms_names_the_last_good_step(ask: Any, good: dict[str, Any], said: str) -> None:
    text = short(ask("sms", {"LastGood": good}, stop=STOPPED))
    assert text.endswith(f". Stop requested. abs_mean = 3.1e-09. {said}")
    assert short(ask("sms", {"LastGood": {"FirstSign": 3}})).endswith("abs_mean = 3.1e-09")
    long = short(ask("sms", {"LastGood": good, "TrainingJobName": "j" * 63}, stop=STOPPED))
    assert len(long) <= 159


def test_without_a_step(ask: Any) -> None:
    request = ask("email", {"Step": None, "Evidence": {"loss": "NaN"}})
    assert subject(request) == "Tocsin warning: VanishingGradient in j1"
    assert short(request) == "Tocsin: VanishingGradient in j1 loss = NaN"


def test_several_are_counted_and_the_worst_severity_counts(ask: Any) -> None:
    request = ask("email", *[{"Severity": each} for each in ("warning", "critical", "info")])
    assert subject(request).startswith("Tocsin critical: VanishingGradient and 2 more in j1 at")
    assert short(request).startswith("Tocsin: VanishingGradient and 2 more in j1 at step 120")


@pytest.mark.parametrize(
    ("given", "worst"),
    [
        (["info"], Severity.INFO),
        (["info", "warning"], Severity.WARNING),
        (["critical", "info"], Severity.CRITICAL),
    ],
)
def test_severity(ask: Any, make_alert: Any, given: list[str], worst: Severity) -> None:
    assert severity(ask("email", *[{"Severity": each} for each in given])) is worst
    resolved = tuple(make_alert(Severity=each) for each in given)
    assert severity(ask("email", resolved=resolved)) is worst


def test_resolved_rules(ask: Any, make_alert: Any) -> None:
    resolved, others = (make_alert(), make_alert()), (make_alert(),) * 3
    request = ask("email", resolved=resolved, ongoing=others)
    assert (
        subject(request)
        == "Tocsin resolved: VanishingGradient and 1 more in j1 at step 120; 3 still firing"
    )
    assert (
        short(request)
        == "Tocsin resolved: VanishingGradient and 1 more in j1 at step 120. 3 still firing."
    )


def test_a_repeat_says_so(ask: Any) -> None:
    request = ask("email", reason="repeat_interval", stop=STOPPED)
    assert subject(request).endswith("at step 120; still firing; stop requested")
    assert "at step 120. Still firing. Stop requested." in short(request)


def test_long_names_share_the_room_and_the_end_stays(ask: Any) -> None:
    long = {"TrainingJobName": "j" * 63}
    text = subject(ask("email", long, stop=Result(ActionOutcome.REFUSED, "")))
    assert text.startswith("Tocsin warning: VanishingGradient in jjjjjj")
    assert text.endswith("jj.. at step 120; stop refused")
    assert len(text) == 99


@pytest.mark.parametrize(
    ("fired", "expected"),
    [
        ([], "Tocsin summary: j1: NoIssuesFound"),
        (["Overfit"], "Tocsin summary: j1: IssuesFound (Overfit)"),
        (["Overfit", "a", "b"], "Tocsin summary: j1: IssuesFound (Overfit and 2 more)"),
    ],
)
def test_a_jobs_end(ask: Any, make_summary: Any, fired: list[str], expected: str) -> None:
    status = "IssuesFound" if fired else "NoIssuesFound"
    rules = [
        {"RuleConfigurationName": name, "RuleEvaluationStatus": "IssuesFound"} for name in fired
    ]
    summary = make_summary(RuleEvaluationStatus=status, DebugRuleEvaluationStatuses=rules)
    request = ask("email", summary=summary)
    assert subject(request) == short(request) == expected


@pytest.mark.parametrize("job", ["j" * 1024, "実験" * 400, "\u202e"])
def test_a_jobs_end_fits(ask: Any, make_summary: Any, job: str) -> None:
    rule = {"RuleConfigurationName": "r" * 1024, "RuleEvaluationStatus": "IssuesFound"}
    for rules in ([], [rule], [rule] * 400):
        summary = make_summary(TrainingJobName=job, DebugRuleEvaluationStatuses=rules)
        request = ask("email", summary=summary)
        assert len(subject(request)) < 100
        assert len(short(request)) < 160
        assert (subject(request) + short(request)).isascii()
        assert (subject(request) + short(request)).isprintable()
