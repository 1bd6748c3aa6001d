"""``tocsin mcp``, asked by the client of the official SDK."""

from __future__ import annotations

import math

import pytest
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, LocalStorage, RunWriter

from tests.frameworks.environment import answer

QUESTION = "Silence all rules of job nightly for 2h? Nobody is notified, and no job is stopped."
NOT_CONFIRMED = "nothing was silenced: the person did not confirm it"


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    root = tmp_path_factory.mktemp("mcp")
    for name, nan_from in (("runs/bad", 25), ("runs/deep/good", 99), ("secret", 0)):
        writer = RunWriter(LocalStorage(root / name), run_id=name)
        writer.write_collections([Collection("losses", include_regex=("^loss$",))])
        for step in range(40):
            loss = math.nan if step >= nan_from else 1 / (step + 1)
            writer.write(step, Mode.TRAIN, step, [Captured("loss", loss)])
        writer.close()
    return {**answer("mcp", "ask_mcp.py", root / "runs"), "folder": str(root / "runs")}


def test_without_leave_there_are_only_tools_that_read(said):
    assert said["tools"] == ["list_runs", "verdict", "list_tensors", "series", "report", "rules"]
    assert said["read_only"]
    assert said["silence"] == {"error": "Unknown tool: silence"}


def test_runs_by_name(said):
    rows = {run["run"]: run["RuleEvaluationStatus"] for run in said["runs"]["runs"]}
    assert rows == {"bad": "IssuesFound", "deep/good": "NoIssuesFound"}
    assert said["runs"]["count"] == 2


def test_a_verdict_has_the_cause_first_and_what_to_do(said):
    verdict = said["verdict"]
    first = verdict["findings"][0]
    assert verdict["verdict"] == "Training broke at step 25: loss is NaN."
    assert (first["rule"], first["first_step"], first["tensor"]) == ("ExplodingTensor", 25, "loss")
    assert "LossWorse" in first["explains"]
    assert first["what_to_do"].endswith(".")
    assert verdict["last_good"]["Step"] == 24
    assert said["healthy"]["findings"] == []


@pytest.mark.parametrize("name", ["outside", "absolute"])
def test_nothing_outside_of_the_folder_can_be_named(said, name):
    assert f"in {said['folder']}: list_runs has the names" in said[name]["error"]


def test_series(said):
    points = [(point["step"], point["value"]) for point in said["series"]["points"]]
    assert points == [(11, pytest.approx(1 / 12)), (25, "NaN"), (39, "NaN")]
    assert said["series"]["steps"] == 40
    assert said["tensors"] == {"tensors": ["loss"], "count": 1}
    assert said["misspelt"]["error"].endswith("the run has no tensor 'los': loss")
    assert said["mode"]["error"].endswith("is not one of TRAIN, EVAL, PREDICT, GLOBAL")
    assert said["many"]["error"].endswith("points is 100000, but must be from 1 to 1000")


def test_reports_and_rules(said):
    assert said["report"]["command"] == f"tocsin report {said['folder']}/bad -o report.html"
    assert said["rule"]["page"] == "docs/rules/ExplodingTensor.md"
    assert said["rule"]["advice"]
    assert "LearningRateTooLarge" in [rule["name"] for rule in said["rules"]["rules"]]
    assert said["no rule"]["error"].endswith("did you mean ExplodingTensor?")


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_silence_is_confirmed_by_a_person(said, protocol):
    confirmed = said[f"confirmed {protocol}"]
    assert confirmed["asked"] == [QUESTION]
    assert confirmed["stored"] == [["nightly", "*", "2h", "new disk"]]
    for without in ("not confirmed", "declined"):
        found = said[f"{without} {protocol}"]
        assert found["asked"] == [QUESTION]
        assert found["said"]["error"].endswith(NOT_CONFIRMED)
        assert found["stored"] == []


def test_a_client_that_cannot_ask_cannot_silence(said):
    assert "elicitation" in said["unasked"]["said"]["error"]
    assert said["unasked"]["stored"] == []
