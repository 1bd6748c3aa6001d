"""The smallest form of each example, and that its README has the figures of the whole one."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from tocsin.rules import _registry
from tocsin.watch import read_watch

from examples.shown import EXAMPLES, HERE, show

README = "README.md"


def test_the_smallest_form_of_pruning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    shown = show("pruning", small=True)
    assert shown.figures["weights of the network"] == "1,184"
    assert shown.figures["rounds until the rule fired"].isdigit()
    assert Xml.fromstring(shown.picture).tag.endswith("svg")
    text = (HERE / "pruning" / README).read_text()
    assert all(f"| {figure} | " in text for figure in shown.figures)


def test_every_example_is_whole() -> None:
    folders = {path.parent for path in HERE.glob("*/run.py")}
    assert {folder.name for folder in folders} == {*EXAMPLES}
    for folder in folders:
        assert (folder / "picture.svg").exists()
        assert "](picture.svg)" in (folder / README).read_text()
        assert read_watch(Path(folder / "watch.yaml")).rules


def test_the_gallery_shows_every_example() -> None:
    gallery = (HERE.parent / "docs" / "gallery.md").read_text()
    assert all(f"examples/{name}/picture.svg" in gallery for name in EXAMPLES)
