"""The smallest form of the examples of the gallery that need PyTorch."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from examples.shown import HERE, Shown, show


def shown(name: str) -> Shown:
    """Runs the smallest form, whose figures are those of the README."""
    found = show(name, small=True)
    assert Xml.fromstring(found.picture).tag.endswith("svg")
    text = (HERE / name / "README.md").read_text()
    assert all(f"| {figure} | " in text for figure in found.figures)
    return found


def test_class_imbalance_and_augmentation() -> None:
    figures = shown("class_imbalance_and_augmentation").figures
    rules = ("ClassImbalance", "CheckInputImages", "Confusion")
    assert "class 9" in figures["before the fix: ClassImbalance"]
    assert "channel 0" in figures["before the fix: CheckInputImages"]
    assert "class 6" in figures["before the fix: Confusion"]
    assert {figures[f"after the fix: {rule}"] for rule in rules} == {"silent"}
    assert int(figures["misread as sixes, and right after it"].split()[0]) > 0
