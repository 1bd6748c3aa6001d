"""Each rule's example, through real files and the real engine: what its page says of it is so.

Each rule is also copied into a folder of custom rules, as a start for a rule of one's own. There it
comes to the same verdicts.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tocsin.custom import load_files
from tocsin.evaluation import check, document
from tocsin.report import report_on
from tocsin.report.cards import CAPTIONS
from tocsin.rules import MACHINE, _registry, get_rule, rule_names
from tocsin.tensors import open_storage
from tocsin.watch import to_watch
from tocsin_hooks import uploader

from docs.generate import example_of

SECTIONS = {"OverallFrameworkMetrics", "OverallSystemUsage", "ProfilerReport"}  # of a report


@pytest.fixture(scope="module", autouse=True)
def _copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder with a copy of every built-in rule, under another name, is loaded."""
    folder = tmp_path_factory.mktemp("my_rules")
    for name in rule_names():
        source = Path(inspect.getfile(get_rule(name)))
        text = source.read_text().replace(f"class {name}(Rule):", f"class My{name}(Rule):")
        (folder / source.name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_registry, "_rules", dict(_registry._rules))
        load_files(folder)
        yield


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with other work no step is dropped: an example saves all of them at once."""
    monkeypatch.setattr(uploader, "_MOST_STEPS", 1 << 16)


def example(name: str) -> ModuleType:
    path = example_of(name)
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(rule: Any, run: Path) -> dict[str, Any]:
    checkpoint, report = check(open_storage(run), to_watch({"rules": [rule]}))
    assert not report.log
    (found,) = document(checkpoint)["rules"]
    return found


@pytest.mark.parametrize("name", sorted({*rule_names()} - SECTIONS))
def test_its_chart_draws_the_number_that_names_it(name: str, tmp_path: Path) -> None:
    module = example(name)
    run = tmp_path / "profiler-output" if get_rule(name).about == MACHINE else tmp_path / "run"
    module.fires(str(run))
    rule = getattr(module, "RULE", {"rule": name})
    (card,) = report_on(open_storage(run), to_watch({"rules": [rule]})).rules
    if card.series is None or card.fired_at is None or not card.fired_at["evidence"]:
        return
    label, number = next(iter(card.fired_at["evidence"].items()))
    drawn = card.series.y[card.series.x.index(card.fired_at["step"])]
    assert drawn == pytest.approx(number, rel=0.02, abs=1e-3)
    assert card.series.label == CAPTIONS.get(label, label).replace("_", " ")


@pytest.mark.parametrize("name", rule_names())
def test_fires_where_it_should_and_only_there(name: str, tmp_path: Path) -> None:
    module = example(name)
    rule = getattr(module, "RULE", {"rule": name})
    never_fires = name in SECTIONS
    assert hasattr(module, "fires") is not never_fires
    cases = [] if never_fires else [(module.fires, "IssuesFound")]
    for write, status in (*cases, (module.stays_quiet, "NoIssuesFound")):
        run = tmp_path / write.__name__
        if get_rule(name).about == MACHINE:
            run /= "profiler-output"
        write(str(run))
        found = judged(rule, run)
        assert found["RuleEvaluationStatus"] == status, found["StatusDetails"]
        copied = judged({**rule, "rule": f"My{name}"}, run)
        names = {"Rule": name, "RuleConfigurationName": name}
        assert {**copied, **names} == found
