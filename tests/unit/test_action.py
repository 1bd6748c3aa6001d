"""The GitHub Action: its step as a runner executes it, with the command line of this checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import yaml

from tests.waiting import PATIENCE

ACTION = Path(__file__).parents[2] / "action"


def inputs_as_runner(value: str, inputs: dict[str, str]) -> str:
    """``value`` with the expressions that the action uses filled in."""
    known = {f"inputs.{key}": text for key, text in inputs.items()}
    known["github.action_path"] = str(ACTION)
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: known[found[1]], value)


def run_check(tmp_path: Path, **given: str) -> tuple[int, dict[str, Path], str]:
    """The exit code, outputs and summary of the step that checks."""
    action: dict[str, Any] = yaml.safe_load((ACTION / "action.yml").read_text())
    defaults = {name: each.get("default", "") for name, each in action["inputs"].items()}
    (step,) = (each for each in action["runs"]["steps"] if each.get("id") == "check")
    command = tmp_path / "tocsin" / "bin" / "tocsin"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tocsin "$@"\n')
    command.chmod(0o755)
    given = {**defaults, **{name.replace("_", "-"): value for name, value in given.items()}}
    environment = {name: inputs_as_runner(value, given) for name, value in step["env"].items()}
    files = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary"}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        env={
            **os.environ,
            **environment,
            **{name: str(path) for name, path in files.items()},
            "RUNNER_TEMP": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    lines = (
        files["GITHUB_OUTPUT"].read_text().splitlines() if files["GITHUB_OUTPUT"].exists() else []
    )
    outputs = {name: Path(path) for name, _, path in (line.partition("=") for line in lines)}
    named = {name: each["value"] for name, each in action["outputs"].items()}
    assert outputs.keys() <= {
        match[1] for value in named.values() if (match := re.search(r"outputs\.(\w+)", value))
    }
    return done.returncode, outputs, files["GITHUB_STEP_SUMMARY"].read_text()


def test_a_run_is_judged(tmp_path: Path) -> None:
    history, watch = tmp_path / "a history.csv", tmp_path / "watch.yaml"
    history.write_text("step,loss\n0,1\n1,nan\n")
    watch.write_text("rules: [ExplodingTensor]\n")
    code, outputs, summary = run_check(tmp_path, run=str(history), watch=str(watch))
    assert code == 1
    assert "IssuesFound  ExplodingTensor" in summary
    assert Xml.parse(outputs["junit"]).getroot()[0].attrib["failures"] == "1"
    assert json.loads(outputs["json"].read_text())["rules"][0]["Rule"] == "ExplodingTensor"
    assert outputs["report"].read_text().startswith("<!doctype html>")


def test_a_run_that_is_not_there_fails(tmp_path: Path) -> None:
    code, outputs, _ = run_check(tmp_path, run=str(tmp_path / "nothing; exit 0"))
    assert (code, outputs) == (2, {})


def test_uses_in_one_job_keep_their_results_apart(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("step,loss\n0,1\n1,0.5\n")
    bad.write_text("step,loss\n0,1\n1,nan\n")
    _, first, _ = run_check(tmp_path, run=str(bad))
    (tmp_path / "output").unlink()
    code, none, _ = run_check(tmp_path, run=str(tmp_path / "nothing"))
    assert (code, none) == (2, {})
    _, second, _ = run_check(tmp_path, run=str(good))
    assert first["json"] != second["json"]
    assert json.loads(first["json"].read_text())["job"] == "bad.csv"


def test_the_workflow_in_the_guide_names_what_the_action_has() -> None:
    guide = (ACTION.parent / "docs" / "ci.md").read_text()
    workflow = yaml.safe_load(guide.split("```yaml {.workflow}\n")[1].split("```")[0])
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    (step,) = (step for step in workflow["jobs"]["train"]["steps"] if step.get("id") == "tocsin")
    assert step["uses"].rpartition("@")[0].endswith("/action")
    assert step["with"].keys() <= action["inputs"].keys()
    assert {*re.findall(r"steps\.tocsin\.outputs\.(\w+)", guide)} <= action["outputs"].keys()
