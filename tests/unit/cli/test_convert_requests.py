"""What SageMaker's own SDK sends is taken over, for each rule that it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tocsin.migrate import convert

REQUESTS = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "sagemaker" / "requests.json").read_text()
)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_becomes_a_watch_file_without_problems(
    tocsin: Any, tmp_path: Path, name: str
) -> None:
    job, watch = tmp_path / "job.json", tmp_path / "watch.yaml"
    job.write_text(json.dumps(REQUESTS[name]))
    converted = tocsin("convert", job)
    assert converted.code == 0
    watch.write_text(converted.out)
    linted = tocsin("lint", watch)
    assert (linted.code, linted.err) == (0, "")


@pytest.mark.parametrize("name", REQUESTS)
def test_no_rule_is_lost(name: str) -> None:
    """A configuration of a rule has one of that name in the watch file; a report has none."""
    request = REQUESTS[name]
    lists = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
    given = [rule["RuleConfigurationName"] for key in lists for rule in request.get(key, ())]
    names = [rule["name"] for rule in convert(request).watch["rules"]]
    assert [each for each in given if each not in names] == (
        ["CreateXgboostReport"] if name == "CreateXgboostReport" else []
    )


def test_what_stops_a_job_there_stops_it_here() -> None:
    watch, left, _ = convert(REQUESTS["StopTraining"])
    assert {rule["name"]: rule["actions"] for rule in watch["rules"]} == {
        "VanishingGradient": ["stop", "email:ann@example.com"],
        "ExplodingTensor": ["stop"],
        "StalledTrainingRule": ["stop"],
    }
    assert watch["rules"][2]["parameters"] == {"threshold": "120"}
    # The prefix that the SDK puts in is the job's own name, and says nothing.
    assert [line.partition(":")[0] for line in left] == [
        "RuleEvaluatorImage",
        "training_job_name_prefix",
        "StopTraining('vision-other')",
    ]


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        ({"stop_training_on_fire": "true"}, ["stop"]),
        ({"stop_training_on_fire": "False"}, None),
        ({"stop_training_on_fire": "True", "action_json": '{"name": "stoptraining"}'}, ["stop"]),
        (
            {"stop_training_on_fire": "True", "action_json": '{"name": "email"}'},
            ["email", "stop"],
        ),
        # A rule of the user's own has parameters of its own.
        ({"stop_training_on_fire": "True", "source_s3_uri": "s3://b/mine.py"}, None),
    ],
)
def test_stop_training_on_fire(given: dict[str, str], actions: list[str] | None) -> None:
    parameters = {"rule_to_invoke": "StalledTrainingRule", **given}
    watch = convert([{"RuleConfigurationName": "s", "RuleParameters": parameters}]).watch
    assert watch["rules"][0].get("actions") == actions


def test_a_key_without_effect_is_named_once() -> None:
    configurations = [
        rule
        for name in ("BatchSize", "CPUBottleneck", "StepOutlier", "ProfilerReport")
        for rule in REQUESTS[name]["ProfilerRuleConfigurations"]
    ]
    left = convert({"ProfilerRuleConfigurations": configurations}).left
    assert [line.partition(":")[0] for line in left] == ["RuleEvaluatorImage", "scan_interval_us"]
