"""``tocsin check --junit``: rules as tests of a CI system."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from tocsin.cli.junit import junit
from tocsin.model import Mode, Severity
from tocsin.tensors import Captured, LocalStorage, RunWriter

RULES = ["--rule", "ExplodingTensor", "--rule", "VanishingGradient"]


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A run whose loss is NaN at step 3."""
    writer = RunWriter(LocalStorage(tmp_path / "run"), run_id="r1")
    for step in range(6):
        loss = np.float32(np.nan if step >= 3 else 1.0)
        writer.write(step, Mode.TRAIN, step, [Captured("loss", loss, role="loss")])
    writer.close()
    return tmp_path / "run"


def cases(file: Path) -> dict[str, Xml.Element]:
    return {case.attrib["name"]: case for case in Xml.parse(file).getroot().iter("testcase")}


def test_a_rule_is_a_test(tocsin, broken: Path, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    said = tocsin("check", broken, *RULES, "--junit", file)
    assert said.code == 1
    assert "ExplodingTensor" in said.out
    suite = Xml.parse(file).getroot().find("testsuite")
    assert suite is not None
    counts = {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "2", "failures": "1", "errors": "0", "skipped": "1"}
    failure = cases(file)["ExplodingTensor"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "critical"
    assert "first at step 3" in (failure.text or "")
    assert "What to do: " in (failure.text or "")
    assert cases(file)["VanishingGradient"].find("skipped") is not None


def test_a_finding_that_is_not_severe_enough_passes(tocsin, broken: Path, tmp_path: Path) -> None:
    file, watch = tmp_path / "junit.xml", tmp_path / "watch.json"
    watch.write_text('{"rules": [{"rule": "ExplodingTensor", "severity": "info"}]}')
    command = ("check", broken, "--watch", watch, "--fail-on", "warning", "--junit", file)
    assert tocsin(*command).code == 0
    case = cases(file)["ExplodingTensor"]
    assert case.find("failure") is None
    assert "info: " in (case.findtext("system-out") or "")


def test_names_and_texts_may_hold_anything(tmp_path: Path) -> None:
    text = 'a\x00b\x1b[31m<&">\ud800\uffff'
    rule = {
        "RuleConfigurationName": text,
        "Rule": "X",
        "RuleEvaluationStatus": "IssuesFound",
        "StatusDetails": text,
        "Severity": None,
        "FirstViolation": None,
    }
    wrong = {**rule, "RuleEvaluationStatus": "Error"}
    file = tmp_path / "junit.xml"
    document = {"run": text, "rules": [rule, wrong], "not_judged": {}}
    file.write_bytes(junit(document, Severity.WARNING))
    suite = Xml.parse(file).getroot()[0]
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("1", "1")
