"""Checks that users write, from their file to the verdict of a rule."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.evaluation import check as judge
from tocsin.evaluation import document
from tocsin.tensors import LocalStorage
from tocsin.watch import to_watch
from tocsin_hooks.torch import (
    BadCheck,
    Finding,
    LossComputed,
    StepEnds,
    TorchHook,
    UpdateBegins,
    UpdateEnds,
    check,
)
from tocsin_hooks.torch.custom.check import load_checks
from tocsin_hooks.torch.trainer import TrainerCapture
from torch import nn

EXAMPLE = Path(__file__).parents[3] / "examples" / "checks_custom" / "prices.py"
STEPS = 25


def train(run: Path, *, checks: Any = (), shift: float = 3.0, clip: float = 1.0) -> list[float]:
    """Trains, and returns the weights in the end."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, checks=checks, save_interval=10, max_overhead=None) as hook:
        for _ in range(STEPS):
            x = torch.rand(16, 4)
            optimizer.zero_grad()
            F.mse_loss(model(x), x.sum(1, keepdim=True) + shift).backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        assert hook.stats.errors == 0
    return [float(each.detach().sum()) for each in model.parameters()]


def verdict(run: Path, **options: Any) -> dict[str, Any]:
    watch = to_watch({"rules": [{"rule": "BrokenContract", **options}]})
    checkpoint, _ = judge(LocalStorage(run), watch)
    (found,) = document(checkpoint)["rules"]
    return dict(found)


def test_a_file_of_checks_is_reported_with_its_texts(tmp_path: Path) -> None:
    train(tmp_path, checks=EXAMPLE, shift=-9.0, clip=100.0)
    found = verdict(tmp_path)
    assert found["RuleEvaluationStatus"] == "IssuesFound"
    assert found["Severity"] == "critical"
    details = found["StatusDetails"]
    assert "test_custom_checks.py:" in details
    assert "a price is negative: the lowest is -" in details
    assert "drop rows whose quantity is below 0" in details
    assert "call clip_grad_norm_" in details
    only = verdict(tmp_path, exclude=r"contract/prices\.negative_target/")
    assert only["Severity"] == "warning"
    assert "negative" not in only["StatusDetails"]


def test_a_training_without_faults_is_healthy_and_unchanged(tmp_path: Path) -> None:
    plain = train(tmp_path / "plain")
    assert train(tmp_path / "checked", checks=EXAMPLE) == plain
    assert verdict(tmp_path / "checked")["RuleEvaluationStatus"] == "NoIssuesFound"


def test_each_event_comes_with_what_it_names(tmp_path: Path) -> None:
    seen: list[Any] = []

    @check("mine.loss", "info", says="a loss")
    def loss(event: LossComputed) -> Finding | None:
        assert not torch.is_grad_enabled()
        assert event.prediction.shape == event.target.shape == (16, 1)
        assert event.value.requires_grad
        assert [each.shape for each in event.inputs] == [(16, 4)]
        seen.append((event.function, event.place.partition(":")[0]))
        return None

    @check("mine.begins", "info", says="an update begins")
    def begins(event: UpdateBegins) -> Finding | None:
        seen.append((type(event.optimizer), type(event.model)))
        return None

    @check("mine.ends", "info", says="an update ends")
    def ends(event: UpdateEnds) -> Finding | None:
        seen.append("ends")
        return None

    @check("mine.step", "info", says="a step ends")
    def step(event: StepEnds) -> Finding | None:
        seen.append(event.step)
        return None

    train(tmp_path, checks=[loss, begins, ends, step])
    one = [("mse_loss", "test_custom_checks.py"), (torch.optim.SGD, nn.Sequential), "ends"]
    assert seen == [each for number in range(STEPS) for each in (*one, number)]


def test_a_check_looks_at_its_first_steps(tmp_path: Path) -> None:
    seen: list[int] = []

    @check("mine.step", "info", says="a step ends", looks=7)
    def step(event: StepEnds) -> Finding | None:
        seen.append(event.step)
        return None

    train(tmp_path, checks=step)
    assert seen == [*range(7)]


@pytest.mark.parametrize("result", ["raise", True])
def test_a_check_that_fails_is_switched_off_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, result: Any
) -> None:
    calls: list[int] = []

    @check("mine.fails", "info", says="it fails")
    def fails(event: LossComputed) -> Any:
        calls.append(1)
        if result == "raise":
            raise KeyError("price")
        return result

    @check("mine.goes_on", "info", says="an update")
    def goes_on(event: UpdateEnds) -> Finding | None:
        return Finding(place="anywhere")

    with caplog.at_level(logging.WARNING, "tocsin"):
        train(tmp_path, checks=[fails, goes_on])
    assert len(calls) == 1
    (said,) = [each.getMessage() for each in caplog.records if "switched off" in each.getMessage()]
    assert said.startswith("check mine.fails is switched off, because it raised ")
    assert verdict(tmp_path)["StatusDetails"].startswith("anywhere: an update")


def test_a_finding_after_the_last_save_is_saved(tmp_path: Path) -> None:
    @check("mine.late", "info", says="it is late")
    def late(event: StepEnds) -> Finding | None:
        return Finding() if event.step == STEPS - 1 else None

    train(tmp_path, checks=late)
    assert "it is late" in verdict(tmp_path)["StatusDetails"]


@pytest.mark.parametrize(
    ("key", "severity", "options", "why"),
    [
        ("broadcast", "info", {}, "an id needs a prefix of yours, a dot and a name"),
        ("mine.A", "info", {}, "an id needs a prefix"),
        ("mine.x", "fatal", {}, "severity is 'fatal', but must be one of info, warning, critical"),
        ("mine.x", "info", {"says": ""}, "says is empty"),
        ("mine.x", "info", {"advice": "x" * 301}, "more than 300 characters"),
        ("mine.x", "info", {"looks": 0}, "looks is 0"),
    ],
)
def test_a_wrong_declaration_is_refused(
    key: str, severity: str, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadCheck, match=why):
        check(key, severity, **{"says": "it is odd", **options})


def test_a_function_must_take_one_event() -> None:
    declared = check("mine.x", "info", says="it is odd")
    functions: list[Any] = [lambda: None, lambda event: None, lambda event, more: None]

    def other(event: int) -> Finding | None: ...

    for each in (*functions, other):
        with pytest.raises(BadCheck, match="takes one argument, of type LossComputed"):
            declared(each)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "no function in it is decorated with @check"),
        (
            "x = 1\nimport nothing_like_it",
            "checks_of_mine.py: line 2: ModuleNotFoundError: No module",
        ),
        (None, "checks_of_mine.py: not a Python file"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_at_once(
    tmp_path: Path, text: str | None, why: str
) -> None:
    file = tmp_path / "checks_of_mine.py"
    if text is not None:
        file.write_text(text)
    for attach in (
        lambda: TorchHook.attach(nn.Linear(1, 1), tmp_path / "run", checks=file),
        lambda: TrainerCapture(tmp_path / "run", {"checks": str(file)}),
    ):
        with pytest.raises(BadCheck, match=why):
            attach()


def test_a_folder_and_a_module_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = EXAMPLE.read_text()
    (tmp_path / "prices_in_folder.py").write_text(text)
    (tmp_path / "_helper.py").write_text("raise ValueError")
    before = {*sys.path, *sys.modules}
    ids = ["prices.negative_target", "prices.not_clipped"]
    assert [each.contract.id for each in load_checks(tmp_path)] == ids
    assert {each for each in {*sys.path, *sys.modules} - before if "tocsin" not in each} == set()
    (tmp_path / "prices_as_module.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert [each.contract.id for each in load_checks("prices_as_module")] == ids
    with pytest.raises(BadCheck, match="cannot import no_such_module: ModuleNotFoundError"):
        load_checks("no_such_module")
    with pytest.raises(BadCheck, match=r"prices.negative_target: there are two"):
        load_checks([EXAMPLE, "prices_as_module"])


def test_without_checks_none_of_their_code_runs(tmp_path: Path) -> None:
    """Counts calls into the folder of custom checks, which no machine slows."""
    calls: list[str] = []

    def trace(frame: Any, event: str, argument: Any) -> None:
        if "/torch/custom/" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    sys.setprofile(trace)
    try:
        train(tmp_path)
    finally:
        sys.setprofile(None)
    assert calls == []
