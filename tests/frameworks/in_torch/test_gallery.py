"""The smallest form of the examples of the gallery that need PyTorch."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from tocsin.rules import _registry

from examples.shown import HERE, Shown, show
from tests.notebook import Notebook, cells_of


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What cells display, in an empty folder: the part of IPython that they import."""
    found: list[Any] = []
    module = ModuleType("IPython.display")
    module.display = found.append  # type: ignore[attr-defined]
    module.clear_output = lambda wait=False: None  # type: ignore[attr-defined]
    module.HTML = module.SVG = str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.chdir(tmp_path)
    return found


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


def test_autoencoder_latent() -> None:
    figures = shown("autoencoder_latent").figures
    assert figures["summed: it fired"] == "never"
    assert figures["averaged: it fired"].startswith("after ")
    assert "0 of 8 units" in figures["averaged: PosteriorCollapse"]


@pytest.mark.usefixtures("displayed")
def test_the_notebook_of_autoencoder_latent(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    *cells, judge = cells_of(HERE / "autoencoder_latent" / "notebook.ipynb")
    notebook.cells(*cells)
    assert Xml.fromstring(notebook.names["_"]).findall(".//{*}animate")
    notebook.cells(judge)
    summed, averaged = notebook.names["_"].values()
    assert (summed[1], averaged[0][:12]) == ("never", "0 of 8 units")


def test_attention() -> None:
    figures = shown("attention").figures
    assert figures["evaluations seen while it trained"].endswith(" of 3")
    assert "up to step" in figures["a report made after the second one"]
    first, last = (float(part.split()[0]) for part in figures["loss on unknown text"].split(","))
    assert last < first - 0.5


def test_the_notebook_of_attention(displayed: list[Any], tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    setup, *cells = cells_of(HERE / "attention" / "notebook.ipynb")
    notebook.cells(setup, "steps = 41", *cells)
    assert len(displayed) == 2 * 3  # heads and drift, three evaluations
    assert all(Xml.fromstring(each).tag.endswith("svg") for each in displayed)
    assert "Tocsin" in notebook.names["_"].html
    weights = notebook.names["heads"](notebook.names["trial"], 2)
    for head in (head for layer in weights.values() for head in layer):
        assert head.sum(axis=1) == pytest.approx(1, abs=1e-3)
        assert not head[~np.tri(len(head), dtype=bool)].any()  # nothing ahead


def test_early_stop() -> None:
    figures = shown("early_stop").figures
    whole, ruled = (int(part) for part in re.findall(r"(\d+)(?:,| \()", figures["epochs"]))
    assert whole == 40
    assert ruled < whole
    assert figures["stopped by"] != "none"
