"""``tocsin check``."""

from __future__ import annotations

import json
import math
import os
import re
import time

import numpy as np
import pytest
from msgspec.structs import replace
from tocsin.evaluation import EvaluationReport, check
from tocsin.model import Mode
from tocsin.rules import get_rule
from tocsin.tensors import Captured, Collection, LocalStorage, RunWriter, index_key

from .conftest import write_run

RULE = [
    "RuleConfigurationName",
    "Rule",
    "RuleEvaluationStatus",
    "StatusDetails",
    "Severity",
    "FirstViolation",
    "FiredAt",
    "Violations",
    "DataPoints",
    "Parameters",
    "Missing",
    "ExplainedBy",
]
STATUSES = ["InProgress", "NoIssuesFound", "IssuesFound", "NotApplicable", "Error", "Stopped"]


def test_smdebugs_runs(tocsin, sample):
    said = tocsin("check", sample.path, "--json")
    document = said.json
    about = ["run", "job", "finished", "TrainingJobStatus", "steps", "workers", "not_judged"]
    silent = [] if document["finished"] else ["silent"]  # its files are an hour old
    assert list(document) == [*about, "rules", "last_good", "not_run", "cause", *silent]
    assert document["run"] == str(sample.path)
    assert document["job"] == sample.name
    assert document["finished"] is sample.trial["loaded_all_steps"]
    steps = sample.trial["steps_global"]
    assert document["steps"] == {"evaluated": len(steps), "first": steps[0], "last": steps[-1]}
    assert document["workers"] == sample.trial["workers"]
    for rule in document["rules"]:
        assert list(rule) == RULE
        assert rule["RuleEvaluationStatus"] in STATUSES
        assert rule["RuleConfigurationName"] == rule["Rule"]
        assert 0 <= rule["Violations"] <= rule["DataPoints"]
        fired = rule["RuleEvaluationStatus"] == "IssuesFound"
        assert (rule["FirstViolation"] is not None) == fired
        assert (rule["FiredAt"] is not None) == fired
        assert rule["Severity"] == get_rule(rule["Rule"]).severity
        assert rule["Violations"] > 0 or not fired
    assert list(document["not_judged"]) == ["no_loss", "too_few_steps", "not_captured"]
    without = [name for names in document["not_judged"].values() for name in names]
    for rule in document["rules"]:
        waits = (
            not rule["FiredAt"] and rule["Violations"] == rule["DataPoints"]
        )  # for a second look
        assert (rule["Rule"] in without) is waits
    statuses = {rule["RuleEvaluationStatus"] for rule in document["rules"]}
    assert said.code == (1 if "IssuesFound" in statuses else 0)
    people = tocsin("check", sample.path, "--all")
    assert people.code == said.code
    lacking = len(document["not_judged"]["no_loss"])
    assert people.out.startswith("no loss was captured: ") == bool(lacking)
    assert f"run      {sample.path}" in people.out.splitlines()
    for rule in document["rules"]:
        assert f"{rule['Violations']} of {rule['DataPoints']}" in people.out


def test_the_document_of_a_run_that_goes_wrong(tocsin, ill):
    said = tocsin("check", ill, "--json")
    assert (said.code, said.err) == (1, "")
    found = {rule["Rule"]: rule for rule in said.json["rules"]}
    assert said.json["job"] == "j1"
    assert found["VanishingGradient"] == {
        "RuleConfigurationName": "VanishingGradient",
        "Rule": "VanishingGradient",
        "RuleEvaluationStatus": "IssuesFound",
        "StatusDetails": "the mean |gradient| of gradient/w is 1e-09, below the threshold 1e-07",
        "Severity": "warning",
        "FirstViolation": {
            "step": 20,
            "mode": "TRAIN",
            "mode_step": 2,
            "worker": "worker_0",
            "tensor": "gradient/w",
            "reason": "below_threshold",
            "evidence": {"abs_mean": pytest.approx(1e-9), "threshold": 1e-7},
        },
        "FiredAt": {
            "step": 40,
            "mode": "TRAIN",
            "mode_step": 4,
            "worker": "worker_0",
            "tensor": "gradient/w",
            "reason": "below_threshold",
            "evidence": {"abs_mean": pytest.approx(1e-9), "threshold": 1e-7},
        },
        "Violations": 4,
        "DataPoints": 6,
        "Parameters": {"share": 1e-6},
        "Missing": [],
        "ExplainedBy": None,
    }
    assert said.json["cause"] == {"RuleConfigurationName": "ExplodingTensor", "likely": False}


@pytest.mark.parametrize("width", [80, 120])
def test_for_people(tocsin, ill, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = tocsin("check", ill)
    run, *lines = said.out.splitlines()
    assert run == f"run      {ill}"  # whole, however long
    assert max(map(len, lines)) <= width
    assert "state    finished" in lines
    assert any(line.startswith("go back  step ") for line in lines)
    assert "steps    6 (0 … 50)" in lines
    at = lines.index("IssuesFound  VanishingGradient  step 20 (TRAIN 2), 4 of 6")
    assert at > lines.index("IssuesFound  ExplodingTensor  step 50 (TRAIN 5), 1 of 6")
    text = " ".join(said.out.split())
    assert "below the threshold 1e-07 What to do: Use ReLU" in text
    assert "residual connections" in text
    rest = r"\d+ clean · \d+ do not apply here \(weights, .* …\) · \d+ need more steps"
    assert re.search(f" {rest} · --all lists them$", text)
    assert "NotApplicable" not in text
    assert len(lines) < 25


@pytest.mark.parametrize("width", [60, 80])
def test_all_rules(tocsin, ill, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = tocsin("check", ill, "--all")
    rules = tocsin("check", ill, "--json").json["rules"]
    assert all(rule["Rule"] in said.out for rule in rules)
    assert max(map(len, said.out.splitlines()[1:])) <= width


def test_what_follows_from_a_nan_is_below_it(tocsin, ill):
    rules = ["--rule", "LossNotDecreasing:num_steps=100,for_steps=1", "--rule", "ExplodingTensor"]
    said = tocsin("check", ill, *rules, "--rule", "VanishingGradient").out
    assert said.count("IssuesFound") == 2
    assert "  explains LossNotDecreasing, step 50" in said


def test_no_advice_where_nothing_is_wrong(tocsin, ill):
    said = tocsin("check", ill, "--rule", "VanishingGradient:threshold=1e-12")
    assert said.code == 0
    assert "NoIssuesFound" in said.out
    assert "What to do" not in said.out


def test_numbers_that_json_does_not_have(tocsin, ill):
    said = tocsin("check", ill, "--rule", "LossNotDecreasing:num_steps=100,for_steps=1", "--json")
    (rule,) = said.json["rules"]
    assert rule["FirstViolation"]["evidence"] == {"loss": "NaN"}


def test_a_step_without_tensors_for_it(tocsin, ill):
    said = tocsin("check", ill, "--rule", "VanishingGradient:tensor_regex=^none$")
    assert said.code == 2
    assert "NotApplicable" in said.out
    assert "not captured: name matching '^none$'" in said.out


def test_the_runs_own_configuration(tocsin, ill):
    own = {"rules": [{"rule": "ExplodingTensor", "name": "mine"}, {"rule": "Nobody"}]}
    (ill / "watch.json").write_text(json.dumps(own))
    said = tocsin("check", ill, "--json")
    assert said.code == 1
    statuses = {r["RuleConfigurationName"]: r["RuleEvaluationStatus"] for r in said.json["rules"]}
    assert statuses == {"mine": "IssuesFound", "Nobody": "Error"}


def test_a_rule_in_error_is_not_passed_over(tocsin, ill):
    (ill / "watch.json").write_text('{"rules": ["Nobody", "Nobody2"]}')
    said = tocsin("check", ill)
    assert said.code == 2
    assert said.out.count("Error ") == 2
    (line,) = said.err.splitlines()
    wrong = "Nobody is in Error: unknown rule 'Nobody'"
    assert line.startswith(f"tocsin: no rule could judge the run: {wrong}")
    assert line.endswith("(and 1 more)")


@pytest.mark.parametrize("profile", [(), ("--profile", "sagemaker")])
def test_a_configuration_that_is_none(tocsin, ill, profile):
    (ill / "watch.json").write_text("[")
    said = tocsin("check", ill, "--json", *profile)
    assert said.code == 1
    assert [line.partition("refused watch.json: ")[1:] for line in said.err.splitlines()] == [
        ("refused watch.json: ", "not JSON: input data was truncated")
    ]
    assert len(said.json["rules"]) > 1


@pytest.mark.parametrize(("damaged", "shown"), [(1, 1), (20, 20), (25, 21)])
def test_files_that_are_refused(tocsin, ill, damaged, shown):
    for step in range(100, 100 + damaged):
        (ill / index_key(step, "worker_0")).write_text("{\n}")
    said = tocsin("check", ill, "--json")
    lines = said.err.splitlines()
    assert len(lines) == shown
    assert lines[0].startswith(f"tocsin: {ill}: refused {index_key(100, 'worker_0')}: ")
    assert (lines[-1] == "tocsin: … and 5 more") == (damaged == 25)
    assert said.json["finished"] is True


def test_names_cannot_write_on_the_terminal(tocsin, ill, monkeypatch):
    def hostile(*arguments, **options):
        checkpoint, _ = check(*arguments, **options)
        rules = {
            f"\x1b[2J{name}": replace(record, details="[bold]\x9b31m\nnext line")
            for name, record in checkpoint.rules.items()
        }
        report = EvaluationReport(log=["run: refused \x1b[2J: why\nnot"])
        return replace(checkpoint, rules=rules, workers=("w\x07",)), report

    monkeypatch.setattr("tocsin.cli.check.check", hostile)
    for said in (tocsin("check", ill), tocsin("check", ill, "--json")):
        assert not {"\x1b", "\x9b", "\x07"} & set(said.out + said.err)
        assert said.err == "tocsin: run: refused \\x1b[2J: why not\n"
    assert "[bold]" in tocsin("check", ill).out


def test_a_run_in_s3(tocsin, ill, upload):
    url = upload(ill, "jobs/j1/debug-output")
    local = tocsin("check", ill, "--json").json
    for given in (url, f"{url}/"):
        said = tocsin("check", given, "--json")
        assert (said.code, said.json) == (1, {**local, "run": url})


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("s3://capture/none", "s3://capture/none is not a run: it has neither index/ nor"),
        ("s3://capture/jobs/j1", "; did you mean s3://capture/jobs/j1/debug-output?"),
        ("s3://nobody-s-bucket/x", "s3://nobody-s-bucket/x is not a run: there is no such bucket"),
        ("s3://No_Bucket!/x", "AWS: "),
    ],
)
@pytest.mark.parametrize("command", ["check", "tensors"])
def test_places_in_s3_without_a_run(tocsin, ill, upload, command, url, complaint):
    upload(ill, "jobs/j1/debug-output")
    assert complaint in tocsin(command, url).complaint


def test_without_credentials(tocsin, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    assert tocsin("check", "s3://capture/x").complaint == "AWS: Unable to locate credentials"


@pytest.mark.parametrize(
    ("age", "shown"),
    [(720, "12 min"), (3 * 3600, "3 h"), (3 * 86400, "3 days")],
)
def test_a_run_without_an_end_says_so_first(tocsin, tmp_path, age, shown):
    run = write_run(tmp_path / "run", 3, "loss", end=False)
    written = time.time() - age
    for file in run.glob("index/*/*.json"):
        os.utime(file, (written, written))
    said = tocsin("check", run, "--rule", "LossNotDecreasing")
    assert said.err.splitlines()[0].endswith(f"no end marker, last step {shown} ago")
    state = next(line for line in said.out.splitlines() if line.startswith("state"))
    silent = age >= 3600
    assert state.split(maxsplit=1)[1] == (
        f"silent for {shown}, without an end marker" if silent else "running"
    )
    document = tocsin("check", run, "--rule", "LossNotDecreasing", "--json").json
    assert ("silent" in document) == silent


def test_a_baseline(tocsin, tmp_path):
    for name, last in (("main", 0.2), ("same", 0.2), ("worse", 1.6)):
        writer = RunWriter(LocalStorage(tmp_path / name), run_id=name)
        writer.write_collections([Collection("losses", include_regex=("^loss$",))])
        for step in range(40):
            loss = last + (2 - last) * math.exp(-step / 5)
            writer.write(step, Mode.TRAIN, step, [Captured("loss", np.float32(loss))])
        writer.close()
    main = str(tmp_path / "main")
    good = ["--rule", "ExplodingTensor", "--baseline", main]
    assert tocsin("check", tmp_path / "same", *good).code == 0
    said = tocsin("check", tmp_path / "worse", *good, "--json")
    rules = {rule["Rule"]: rule for rule in said.json["rules"]}
    assert said.code == 1
    assert rules["WorseThanBaseline"]["RuleEvaluationStatus"] == "IssuesFound"
    assert rules["WorseThanBaseline"]["Parameters"]["runs"] == [main]
    assert "is not a run" in tocsin("check", main, "--baseline", tmp_path).complaint
    complaint = tocsin("check", main, *["--baseline", main] * 9).complaint
    assert complaint == "--baseline: 9 runs are more than 8"
