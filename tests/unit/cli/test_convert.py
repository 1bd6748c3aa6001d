"""From Amazon's Debugger to a watch file and to the settings of a job."""

from __future__ import annotations

import json

import pytest
from tocsin.migrate import convert, training_job_settings
from tocsin.watch import BadWatch, parse_watch, resolve, to_watch
from tocsin.watch.sagemaker import REPORTED

JOB = {
    "TrainingJobName": "j1",
    "DebugHookConfig": {
        "S3OutputPath": "s3://b/jobs",
        "CollectionConfigurations": [
            {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "100"}}
        ],
    },
    "DebugRuleConfigurations": [
        {
            "RuleConfigurationName": "VanishingGradient",
            "RuleEvaluatorImage": "503895931360.dkr.ecr.us-east-1.amazonaws.com/rules",
            "RuleParameters": {
                "rule_to_invoke": "VanishingGradient",
                "threshold": "1e-6",
                "action_json": '{"name": "stoptraining"}',
            },
        },
        {
            "RuleConfigurationName": "mine",
            "RuleParameters": {"rule_to_invoke": "Mine", "source_s3_uri": "s3://b/mine.py"},
        },
    ],
    "ProfilerConfig": {"ProfilingIntervalInMilliseconds": 1000, "ProfilingParameters": {"x": "y"}},
    "ProfilerRuleConfigurations": [
        {
            "RuleConfigurationName": "report",
            "RuleParameters": {
                "rule_to_invoke": "ProfilerReport",
                "CPUBottleneck_cpu_threshold": "95",
                "opt_out_telemetry": "True",
            },
        },
        {
            "RuleConfigurationName": "outliers",
            "RuleParameters": {"rule_to_invoke": "StepOutlier", "stddev": "5", "mode": "None"},
        },
    ],
}


def test_a_job_becomes_a_watch_file():
    watch, left, _ = convert(JOB)
    rule = watch["rules"][0]
    assert (rule["rule"], rule["actions"], rule["parameters"]) == (
        "VanishingGradient",
        ["stop"],
        {"threshold": "1e-6"},
    )
    assert watch["capture"]["collections"]["gradients"]["save_interval"] == 100
    assert to_watch(watch).profile == "sagemaker"
    assert [line.partition(": ")[0] for line in left] == [
        "ProfilingParameters",
        "RuleEvaluatorImage",
        "opt_out_telemetry",
        "mine",
        "mine",
    ]
    assert "custom_rules" in left[3]
    assert "unknown rule 'Mine'" in left[4]


def test_profiler_rules_become_rules_and_a_section_machine():
    watch, _, better = convert(JOB)
    assert watch["machine"] == {"interval": "1000ms"}
    rules = {rule["name"]: rule for rule in watch["rules"][2:]}
    assert list(rules) == ["report", *(f"report-{name}" for name in REPORTED), "outliers"]
    assert rules["report-CPUBottleneck"]["parameters"] == {"cpu_threshold": "95"}
    watched, refused = resolve(to_watch(watch), "machine")
    assert not refused
    assert {rule.name: rule.rule for rule in watched}["outliers"].stddev == 5
    assert [line.partition(": ")[0] for line in better] == [
        "ProfilerReport",
        "StepOutlier",
        *(name for name in REPORTED if name != "StepOutlier"),
    ]
    disabled = {**JOB, "ProfilerConfig": {"DisableProfiler": True}}
    assert "machine" not in convert(disabled).watch


def test_the_list_alone():
    rules = convert(JOB["DebugRuleConfigurations"]).watch["rules"]
    assert rules == convert(JOB).watch["rules"][: len(rules)]


@pytest.mark.parametrize(
    "job",
    [
        7,
        {},
        {"ProfilerConfig": {"ProfilingIntervalInMilliseconds": "soon"}},
        {"ProfilerRuleConfigurations": [7]},
        {"TrainingJobName": "j"},
        {"DebugRuleConfigurations": ["x"]},
        {"DebugHookConfig": [1]},
    ],
)
def test_what_is_no_job(job):
    with pytest.raises(BadWatch):
        convert(job)


def test_the_settings_of_a_job(tmp_path):
    file = tmp_path / "watch.yaml"
    file.write_text("rules: [ExplodingTensor]")
    run = "s3://bucket/vision/resnet-7"
    settings = training_job_settings(file, f"{run}/")
    assert settings["Tags"] == [{"Key": "tocsin:run", "Value": run}]
    assert settings["Environment"] == {"TOCSIN_RUN": run}
    watch = parse_watch(settings["RunFiles"]["watch.json"].encode())
    assert [rule.rule for rule in watch.rules or ()] == ["ExplodingTensor"]
    assert training_job_settings({"rules": ["ExplodingTensor"]}, run) == settings
    with pytest.raises(BadWatch):
        training_job_settings(file, "runs/first")


def test_the_command(tocsin, tmp_path):
    file = tmp_path / "job.json"
    file.write_text(json.dumps(JOB))
    said = tocsin("convert", file)
    assert said.code == 0
    assert parse_watch(said.out.encode(), yaml=True) == to_watch(convert(JOB).watch)
    assert "not converted: ProfilingParameters" in said.err
    assert "better: CPUBottleneck: InputBottleneck says" in said.err
    assert tocsin("convert", file, "--json").json["not_taken_over"] == convert(JOB).left
    file.write_text("[")
    assert "not JSON" in tocsin("convert", file).complaint
