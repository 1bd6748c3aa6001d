"""Each rule's example, through real files and the real engine: what its page shows is so."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tocsin.evaluation import check, document
from tocsin.rules import rule_names
from tocsin.tensors import open_storage
from tocsin.watch import to_watch

from docs.generate import example_of


def example(name: str) -> ModuleType:
    path = example_of(name)
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(name: str, module: ModuleType, run: Path) -> dict[str, Any]:
    watch = to_watch({"rules": [getattr(module, "RULE", name)]})
    checkpoint, report = check(open_storage(run), watch)
    assert not report.log
    (rule,) = document(checkpoint)["rules"]
    return rule


@pytest.mark.parametrize("name", rule_names())
def test_fires_where_it_should_and_only_there(name: str, tmp_path: Path) -> None:
    module = example(name)
    module.fires(str(tmp_path / "fires"))
    module.stays_quiet(str(tmp_path / "quiet"))
    fired = judged(name, module, tmp_path / "fires")
    assert fired["RuleEvaluationStatus"] == "IssuesFound", fired["StatusDetails"]
    quiet = judged(name, module, tmp_path / "quiet")
    assert quiet["RuleEvaluationStatus"] == "NoIssuesFound", quiet["StatusDetails"]
