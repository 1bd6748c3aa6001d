"""What goes into the layer."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from tocsin.rules import _registry
from tocsin_cdk import bundle, layer
from tocsin_cdk.layer import SharedLayer
from tocsin_cdk.options import DeploymentOptions

RULE = "class NoRule: ...\n"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the place of pip and of our sources."""
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    (tmp_path / "layer" / "tocsin").mkdir(parents=True)
    (tmp_path / "layer" / "tocsin" / "model.py").write_text("x = 1")
    monkeypatch.setattr(layer, "_SOURCE", tmp_path / "layer" / "tocsin")
    staged = partial(bundle.staged_layer, cache=tmp_path / "cache")
    monkeypatch.setattr(layer, "staged_layer", staged)
    monkeypatch.setattr(bundle, "_pip_install", lambda target, folder: folder.mkdir())


def layer_of(folder: Path, watch_file: Path | None) -> tuple[str, set[str]]:
    """The name of the asset, and the files in it that are not tocsin's own."""
    app = App(outdir=str(folder), context={"aws:cdk:bundling-stacks": ["**"]})
    SharedLayer(Stack(app, "Stack"), "Layer", options=DeploymentOptions(watch_file=watch_file))
    app.synth()
    (asset,) = folder.glob("asset.*")
    files = {path.relative_to(asset).as_posix() for path in asset.rglob("*") if path.is_file()}
    assert "python/tocsin/model.py" in files
    return asset.name, {name for name in files if not name.startswith("python/tocsin/")}


@pytest.mark.usefixtures("packages")
def test_custom_rules_are_a_package_of_it(tmp_path: Path) -> None:
    watch, rules = tmp_path / "watch.yaml", tmp_path / "my_rules"
    watch.write_text("{custom_rules: my_rules, rules: []}")
    for name in ("one.py", "_shared.py", "__pycache__/one.pyc", "inner/data.json"):
        (rules / name).parent.mkdir(parents=True, exist_ok=True)
        (rules / name).write_text(RULE)
    first, files = layer_of(tmp_path / "first", watch)
    package = "python/tocsin_custom_rules"
    assert files == {f"{package}/{name}" for name in ("one.py", "_shared.py", "inner/data.json")}
    assert layer_of(tmp_path / "again", watch)[0] == first
    (rules / "one.py").write_text(f"{RULE}# changed")
    assert layer_of(tmp_path / "changed", watch)[0] != first


@pytest.mark.usefixtures("packages")
def test_without_them_there_is_nothing_else(tmp_path: Path) -> None:
    assert layer_of(tmp_path / "out", None)[1] == set()
