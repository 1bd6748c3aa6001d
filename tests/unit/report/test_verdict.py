"""The verdict in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from tocsin.report import headline
from tocsin.report.verdict import consequences, fired


def rule(
    name: str,
    step: int | None = None,
    *,
    severity: str = "warning",
    reason: str = "increasing",
    status: str | None = None,
    details: str = "it is bad",
) -> dict[str, Any]:
    first = None if step is None else {"step": step, "reason": reason, "tensor": "w"}
    return {
        "RuleConfigurationName": name,
        "Rule": name,
        "RuleEvaluationStatus": status or ("NoIssuesFound" if step is None else "IssuesFound"),
        "StatusDetails": details if step is not None or status else "",
        "Severity": severity,
        "FirstViolation": first,
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
    assert found.detail == "The first sign came 4 minutes earlier, at 2026-11-23 01:11 UTC: A."


NAN = rule("ExplodingTensor", 1566, severity="critical", reason="not_finite", details="loss is NaN")

AFTERMATH = "1 more rule fired once the numbers were lost."


@pytest.mark.parametrize(
    ("document", "level", "sentence", "detail"),
    [
        (
            run(NAN, rule("GradientExplosion", 1563), rule("LossDiverging", 1567)),
            "critical",
            "Training broke at step 1,566: loss is NaN.",
            f"The first sign came 3 steps earlier, at step 1,563: GradientExplosion. {AFTERMATH}",
        ),
        (run(NAN), "critical", "Training broke at step 1,566: loss is NaN.", ""),
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
            "The first sign came 1 step earlier, at step 40: Overfit.",
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
            run(steps=0),
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


def test_what_is_about_time_is_no_consequence_of_a_nan() -> None:
    late = rule("StalledTrainingRule", 1570, reason="late")
    found = fired(run(late, rule("LossDiverging", 1566), NAN))

    assert [each["Rule"] for each in found] == [
        "ExplodingTensor",
        "LossDiverging",
        "StalledTrainingRule",
    ]
    assert consequences(found) == {"LossDiverging"}
