"""The verdict in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from tocsin.report import headline
from tocsin.report.verdict import fired, leads


def rule(
    name: str,
    step: int | None = None,
    *,
    severity: str = "warning",
    reason: str = "increasing",
    status: str | None = None,
    details: str = "it is bad",
    violations: int = 30,
) -> dict[str, Any]:
    first = None if step is None else {"step": step, "reason": reason, "tensor": "w"}
    return {
        "RuleConfigurationName": name,
        "Rule": name,
        "RuleEvaluationStatus": status or ("NoIssuesFound" if step is None else "IssuesFound"),
        "StatusDetails": details if step is not None or status else "",
        "Severity": severity,
        "FirstViolation": first,
        "Violations": violations,
        "DataPoints": 30,
    }


def run(
    *rules: dict[str, Any], steps: int = 100, finished: bool = True, **absent: list[str]
) -> Any:
    not_judged = {"no_loss": [], "too_few_steps": [], "not_captured": [], **absent}
    return {
        "run": "runs/j1",
        "steps": {"evaluated": steps, "first": 0, "last": steps - 1},
        "finished": finished,
        "not_judged": not_judged,
        "rules": list(rules),
    }


def test_minutes_of_a_machine_are_times() -> None:
    document = {**run(rule("A", 29923271), rule("B", 29923275, severity="critical"))}
    found = headline({**document, "run": "s3://b/jobs/j1/profiler-output"})
    assert found.sentence == "B since 2026-11-23 01:15 UTC: it is bad."
    assert found.detail == "1 more rule fired."


NAN = rule("ExplodingTensor", 66, severity="critical", reason="not_finite", details="loss is NaN")

LIKELY = rule("NotNormalizedData", 0, severity="info", details="inputs are not normalised")


@pytest.mark.parametrize(
    ("document", "level", "sentence", "detail"),
    [
        (
            run(NAN, rule("GradientExplosion", 63), rule("LossDiverging", 67)),
            "critical",
            "GradientExplosion since step 63: it is bad.",
            "It explains ExplodingTensor, LossDiverging.",
        ),
        (
            {**run(rule("A")), "TrainingJobStatus": "Failed"},
            "warning",
            "The training job failed.",
            "No rule found a cause: 1 rule judged healthy over 100 steps. Read the log of the job.",
        ),
        (
            run(NAN, rule("LossDiverging", 67)),
            "critical",
            "Training broke at step 66: loss is NaN.",
            "It explains LossDiverging.",
        ),
        (
            run(LIKELY, rule("NoSkill", 40)),
            "warning",
            "Likely cause: NotNormalizedData since step 0: inputs are not normalised.",
            "It explains NoSkill.",
        ),
        (
            run(LIKELY),
            "ok",
            "No alarm over 100 steps.",
            "1 finding has severity info.",
        ),
        (run(NAN), "critical", "Training broke at step 66: loss is NaN.", ""),
        (
            run(rule("Overfit", 40), rule("LossSpike", 90)),
            "warning",
            "Overfit since step 40: it is bad.",
            "1 more rule fired.",
        ),
        (
            run(rule("Overfit", 40), rule("Mine", 41, severity="critical")),
            "critical",
            "Mine since step 41: it is bad.",
            "1 more rule fired.",
        ),
        (run(rule("A")), "ok", "No issues found: 1 rule judged healthy over 100 steps.", ""),
        (
            run(rule("A"), rule("B"), rule("C"), steps=1, finished=False, no_loss=["B"]),
            "ok",
            "No issues so far: 2 rules judged healthy over 1 step.",
            "No loss was captured: 1 rules cannot judge.",
        ),
        (
            run(rule("A"), no_loss=["A"]),
            "none",
            "Nothing could be judged.",
            "No loss was captured.",
        ),
        (
            run(rule("A", status="Error", details="it failed")),
            "none",
            "Nothing could be judged.",
            "A is in Error: it failed.",
        ),
        (
            run(rule("ExplodingTensor", 9, severity="critical", reason="not_finite", violations=1)),
            "critical",
            "ExplodingTensor at step 9, in 1 of 30 saves: it is bad.",
            "",
        ),
        (
            run(rule("A"), rule("B"), rule("C"), steps=1, too_few_steps=["B", "C"]),
            "none",
            "Too early to say: 1 of 3 rules have judged a step.",
            "The others need more steps.",
        ),
        (
            run(steps=0),
            "warning",
            "The run ended before its first step.",
            "The training failed, or its hook saved no step: read the log of the training.",
        ),
        (
            run(steps=0, finished=False),
            "none",
            "No step is complete yet.",
            "The run has no data that can be judged.",
        ),
    ],
)
def test_headline(document: Any, level: str, sentence: str, detail: str) -> None:
    found = headline(document)

    assert (found.level, found.sentence, found.detail) == (level, sentence, detail)


@pytest.mark.parametrize(
    ("first", "step", "when"),
    [(29_000_000, 29_000_100, "2025-02-19 23:00 UTC"), (2 * 10**9, 2 * 10**9 + 2, "minute 3")],
)
def test_step_of_a_machine_run_is_the_time_of_its_minute(first: int, step: int, when: str) -> None:
    document = run(rule("LowGPUUtilization", step))
    document |= {"run": "runs/j1/profiler-output"}
    document["steps"]["first"] = first

    assert headline(document).sentence == f"LowGPUUtilization since {when}: it is bad."


def test_what_is_about_time_is_not_explained_by_a_nan() -> None:
    late = rule("StalledTrainingRule", 70, reason="late")
    document = run(late, rule("LossDiverging", 66), NAN)

    assert [[each["Rule"] for each in lead] for lead in leads(document)] == [
        ["ExplodingTensor", "LossDiverging"],
        ["StalledTrainingRule"],
    ]
    assert len(fired(document)) == 3


def test_says_where_to_go_back_to_and_what_was_not_run() -> None:
    good = {"FirstSign": 25, "Step": 24, "Checkpoint": "19.pt", "CheckpointStep": 19}
    left = {"Steps": 100, "Hours": 1.5, "Usd": None}
    detail = headline({**run(NAN), "last_good": good, "not_run": left}).detail
    assert "Last good: step 24; checkpoint of step 19: 19.pt." in detail
    assert detail.endswith("Not run: 100 planned steps, 1.5 hours, at an unknown price.")
