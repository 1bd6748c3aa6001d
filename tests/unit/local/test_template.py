"""The template is written again only when something that it is made of has changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local import template as module
from local.reaper import Reaper
from local.synth import Assembly
from local.template import template


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The options of each time that the app was run, for a project in ``tmp_path``."""
    for name in ("app.py", "cdk.json", "infra/stack.py", "rules_layer/tocsin/model.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    for name in ("functions/act.py", "local/requirements.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    calls: list[Mapping[str, Any]] = []

    def synthesize(reaper: Reaper, folder: Path, context: Mapping[str, Any]) -> None:
        calls.append(context)
        (folder / "name").write_text(f"stack {len(calls)}")

    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "synthesize", synthesize)
    monkeypatch.setattr(
        module, "read_assembly", lambda folder: Assembly((folder / "name").read_text(), {}, ())
    )
    return calls


def test_it_is_kept_until_a_source_or_an_option_changes(
    written: list[Mapping[str, Any]], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    with Reaper() as reaper:
        assert template(reaper, {"a": 1}, cache).stack == "stack 1"
        assert template(reaper, {"a": 1}, cache).stack == "stack 1"
        assert template(reaper, {"a": 2}, cache).stack == "stack 2"
        (tmp_path / "rules_layer" / "tocsin" / "model.py").write_text("new")
        assert template(reaper, {"a": 1}, cache).stack == "stack 3"
        for folder in cache.iterdir():
            os.utime(folder, (0, 0))
        assert template(reaper, {"a": 1}, cache).stack == "stack 3"
        assert len(list(cache.iterdir())) == 1


def test_a_watch_file_and_its_rules_are_sources(
    written: list[Mapping[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "cdk.json").write_text('{"context": {"watchFile": "conf/watch.json"}}')
    (tmp_path / "conf" / "own").mkdir(parents=True)
    watch, rule = tmp_path / "conf" / "watch.json", tmp_path / "conf" / "own" / "rule.py"
    with Reaper() as reaper:
        for file, content in (
            (watch, '{"rules": ["Overfit"]}'),
            (watch, '{"custom_rules": "own"}'),
            (rule, "LIMIT = 1"),
            (rule, "LIMIT = 2"),
            (watch, "not a watch file"),
        ):
            file.write_text(content)
            before = len(written)
            assert template(reaper, {}, tmp_path / "cache").stack == f"stack {before + 1}"
            assert template(reaper, {}, tmp_path / "cache").stack == f"stack {before + 1}"
