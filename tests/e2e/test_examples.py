"""The smallest form of the examples that need the embedded AWS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.early_stop.run import HERE, SMALL, searched
from local import LocalAws

pytestmark = pytest.mark.e2e


def test_the_smallest_form_of_early_stop(aws: LocalAws, tmp_path: Path) -> None:
    shown = searched(aws, tmp_path, **SMALL)
    without, with_rules = map(int, re.findall(r"(\d+)(?:,| \()", shown.figures["steps"]))
    assert without == SMALL["trials"] * SMALL["steps"]
    assert with_rules < without
    assert shown.figures["stopped by"] != "none"
    text = (HERE / "README.md").read_text()
    assert all(f"| {figure} | " in text for figure in shown.figures)
