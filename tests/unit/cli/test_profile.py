"""``tocsin profile``: a trace that viewers accept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tocsin.cli import timeline
from tocsin.profile import REPORTED, system_samples
from tocsin.tensors import LocalStorage
from tocsin_hooks.machine import Minute, write_minutes

from tests.profiler_files import MINUTE, lines, system_key, write
from tests.viewer import opened

SLOW = Minute(
    series={"gpu0/GPUUtilization": [50.0, math.nan, 70.0], "memory/MemoryUsedPercent": [9.0]},
    durations={"TRAIN": [0.3] * 100, "wait": [0.5] * 100, "EVAL": []},
)


def written(tocsin: Any, folder: Path, run: str = "debug-output") -> Any:
    write_minutes(str(folder / "profiler-output"), [{"a": SLOW, "b": SLOW}] * 6)
    said = tocsin("profile", str(folder / run), "--trace", str(folder / "t.json"), "--json")
    assert said.code == 0, said.err
    assert said.json["minutes"] == 12
    return json.loads((folder / "t.json").read_text())


@pytest.mark.parametrize("run", ["debug-output", "profiler-output"])
def test_viewers_accept_it(tocsin: Any, tmp_path: Path, run: str) -> None:
    trace = written(tocsin, tmp_path, run)
    events = trace["traceEvents"]
    lanes = opened(events)
    assert all(isinstance(event[key], int) for event in events for key in ("pid", "tid"))
    assert all("ts" not in event for event in events if event["ph"] == "M")
    assert {event["ph"] for event in events} == {"M", "X", "C", "i"}
    assert max(lanes.values()) <= 6 * 60e6
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["01 a", "02 b"]


def test_a_finding_and_a_sample_are_where_they_belong(tocsin: Any, tmp_path: Path) -> None:
    events = written(tocsin, tmp_path)["traceEvents"]
    (found,) = [event for event in events if event["ph"] == "i"]
    assert (found["name"], found["ts"]) == ("InputBottleneck", 4 * 60e6)
    gpu = [e for e in events if e["name"] == "gpu0/GPUUtilization" and e["pid"] == 1]
    assert [(e["ts"], e["args"]["value"]) for e in gpu[:2]] == [(0.0, 50.0), (40e6, 70.0)]


def test_a_long_run_has_means(tocsin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_MOST_COUNTERS", 10)
    events = written(tocsin, tmp_path)["traceEvents"]
    gpu = [e for e in events if e["name"] == "gpu0/GPUUtilization" and e["pid"] == 1]
    assert [e["args"]["value"] for e in gpu] == [60.0] * 6


def test_without_a_machine_run_it_says_what_is_missing(tocsin: Any, tmp_path: Path) -> None:
    (tmp_path / "profiler-output").mkdir()
    said = tocsin("profile", str(tmp_path), "--trace", str(tmp_path / "t.json"))
    assert said.code == 2
    assert "no machine minutes" in said.err


def test_reports_and_files_of_amazon(tocsin: Any, tmp_path: Path) -> None:
    write_minutes(str(tmp_path / "profiler-output"), [{"a": SLOW, "b": SLOW}] * 2)
    reports, files = tmp_path / "reports", tmp_path / "amazon"
    said = tocsin(
        "profile", str(tmp_path), "--reports", str(reports), "--smdebug", str(files), "--json"
    )
    assert (said.code, said.json["files"]) == (0, 8), said.err
    assert {path.stem for path in reports.iterdir()} == set(REPORTED)
    assert json.loads((reports / "MaxInitializationTime.json").read_text())["Datapoints"] == 2
    assert len([*system_samples(LocalStorage(files))]) == 4 * 3


def test_amazons_files_in_a_folder_of_any_name(tocsin: Any, tmp_path: Path) -> None:
    for minute in (MINUTE, MINUTE + 1):
        write(tmp_path, system_key(minute), lines(minute, gpus=(80.0,), interval=5, ticks=12))
    said = tocsin("profile", str(tmp_path), "--trace", str(tmp_path / "t.json"), "--json")
    assert said.code == 0, said.err
    assert opened(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) == {}


def test_it_says_what_there_is_to_write(tocsin: Any, tmp_path: Path) -> None:
    said = tocsin("profile", str(tmp_path))
    assert said.code == 2
    assert "--trace FILE, --reports DIR or --smdebug DIR" in said.err
