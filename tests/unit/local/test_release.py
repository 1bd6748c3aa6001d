"""May a tag be released?"""

from __future__ import annotations

import re

import pytest
import yaml

from local.error import LocalError
from local.paths import ROOT
from local.release import notes

PROJECT = '[project]\nversion = "0.2.0"\n'
CHANGELOG = "# Changelog\n\n## [0.2.0] – 2026-01-31\n\n* new\n\n## [0.1.0] – 2025-12-01\n\n* old\n"


def test_the_notes_of_a_release() -> None:
    assert notes("v0.2.0", PROJECT, CHANGELOG) == "* new"


@pytest.mark.parametrize(
    ("tag", "changelog", "message"),
    [
        ("v0.1.0", CHANGELOG, "the tag is v0.1.0, but pyproject.toml has version 0.2.0"),
        ("0.2.0", CHANGELOG, "the tag is 0.2.0"),
        ("v0.2.0", CHANGELOG.replace("[0.2.0]", "[0.3.0]"), r"no section \[0.2.0\]"),
        ("v0.2.0", CHANGELOG.replace("2026-01-31", "unreleased"), "'unreleased' of 0.2.0"),
    ],
)
def test_what_is_not_released(tag: str, changelog: str, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        notes(tag, PROJECT, changelog)


def test_the_real_files_need_a_date_only() -> None:
    texts = [(ROOT / name).read_text() for name in ("pyproject.toml", "CHANGELOG.md")]
    version = re.search(r'^version = "(.*)"', texts[0], re.MULTILINE)
    assert version
    dated = texts[1].replace("unreleased", "2026-01-31")
    assert "### Added" in notes(f"v{version[1]}", texts[0], dated)


def test_the_workflow_publishes_what_was_tried_and_keeps_no_token() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    tried = next(at for at, run in enumerate(commands) if "test_distribution" in run)
    assert any("local.release" in run for run in commands[:tried])
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in text
