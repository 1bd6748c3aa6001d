"""The machines of a training on its page."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.report import Page, html_of, minutes, report_on
from tocsin.tensors import Captured, RunWriter, open_storage
from tocsin_hooks.machine import Minute, write_minutes


def page_of(folder: Path, *watched: dict[str, Minute]) -> Page:
    storage = open_storage(folder / "debug-output")
    RunWriter(storage, run_id="r").write(0, Mode.TRAIN, 0, [Captured("loss", np.float32(1))])
    if watched:
        write_minutes(str(folder / "profiler-output"), watched)
    return report_on(storage)


def minute(gpu: float = 80.0, wait: float = 0.2, **durations: list[float]) -> Minute:
    series = {"gpu0/GPUUtilization": [gpu] * 120, "cpu/CPUUtilization": [25.0] * 120}
    times = {"TRAIN": [0.2] * 95 + [0.6] * 5, "wait": [wait] * 100, **durations}
    return Minute(60.0, series, times)


def test_a_run_without_machines_shows_nothing_of_them(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert page.machine is None
    assert "<h2>The machine" not in html_of(page)


def test_shares_of_the_time(tmp_path: Path) -> None:
    """On a GPU each tenth forward pass is timed and stands for ten."""
    found = page_of(tmp_path, {"a": minute(forward=[0.06] * 10), "b": Minute(60.0)}).machine
    assert found is not None
    first, second = found.shares
    assert (first.forward, first.step, first.wait) == (0.1, 0.2667, 0.3333)
    assert (first.evaluation, first.other) == (None, 0.3)
    assert (second.node, second.forward, second.wait, second.other) == ("b", None, None, 1.0)
    assert found.sentence == (
        "Time spent: forward passes 5 %, the rest of the steps 13 %, waiting for data 17 %, "
        "other 65 %. Half of the steps took at most 0.2 s, 95 of 100 at most 0.2 s."
    )


def test_times_of_steps_and_statistics(tmp_path: Path) -> None:
    found = page_of(tmp_path, *[{"a": minute(), "b": minute()}] * 3).machine
    assert found is not None
    assert found.steps is not None
    assert found.steps.x == [0.0, 1.0, 2.0]
    assert found.steps.series["longest"] == pytest.approx([0.6] * 3, abs=1e-3)
    assert found.durations is not None
    assert sum(count or 0 for count in found.durations.series["steps"]) == 600
    rows = {each.name: each for each in found.statistics}
    step = rows["training step"]
    assert (step.of, step.p50, step.p99) == ("steps", pytest.approx(0.2, abs=1e-3), 0.6001)
    assert (rows["wait for a batch"].of, rows["GPU utilization"].of) == ("minutes", "samples")
    assert rows["GPU utilization"].p95 == 80.0


def test_a_map_of_devices(tmp_path: Path) -> None:
    found = page_of(tmp_path, {"a": minute(0.0)}, {"a": minute(100.0), "b": minute(50.0)}).machine
    assert found is not None
    assert found.utilization is not None
    assert found.utilization.rows == ["a gpu0", "a cpu", "b gpu0", "b cpu"]
    cells = zlib.decompress(base64.b64decode(found.utilization.cells))
    assert [*cells] == [2, 254, 65, 65, 0, 128, 0, 65]


def test_findings_come_with_their_time(tmp_path: Path) -> None:
    page = page_of(tmp_path, *[{"a": minute(20.0, wait=0.3)}] * 6)
    found = page.machine
    assert found is not None
    assert found.rules[0].name == "InputBottleneck"
    assert found.began == "1970-01-01T00:00:00+00:00"
    assert found.verdict.sentence.startswith("InputBottleneck since 1970-01-01 00:00 UTC: a waits")
    assert "The machine has issues: InputBottleneck" in page.verdict.detail
    text = html_of(page).partition("</noscript>")[0]
    assert "<h2>InputBottleneck</h2>\n<p>a waits for data 50 % of the time" in text
    assert "<tr><td>training step<td>s<td>0.2" in text


def test_the_page_of_a_machine_run_has_its_rules_once(tmp_path: Path) -> None:
    write_minutes(str(tmp_path / "profiler-output"), [minute(20.0, wait=0.3)] * 6)
    page = report_on(open_storage(tmp_path / "profiler-output"))
    assert page.machine is not None
    assert page.machine.rules == []
    assert page.rules[0].name == "InputBottleneck"


def test_of_a_long_run_some_minutes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "MOST_FILES", 10)
    found = page_of(tmp_path, *[{"a": minute(), "b": minute()}] * 20).machine
    assert found is not None
    assert (found.every, found.minutes) == (4, 5)


def test_minutes_without_steps_or_samples(tmp_path: Path) -> None:
    found = page_of(tmp_path, {"a": Minute(60.0, {}, {"TRAIN": []})}).machine
    assert found is not None
    assert (found.steps, found.durations, found.utilization, found.statistics) == (
        None,
        None,
        None,
        [],
    )
    assert found.sentence.endswith("Steps were not timed, or none ended.")
