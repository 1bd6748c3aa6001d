"""``tocsin check`` and ``tocsin report`` on files of Amazon's profiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.profiler_files import (
    MINUTE,
    lines,
    steps,
    system_key,
    timeline,
    timeline_key,
    write,
)

FIXTURE = Path(__file__).parents[2] / "fixtures/smdebug/profiler_torch/profiler-output"
IDLE = "CPUBottleneck:patience=200"


def profiled(folder: Path) -> Path:
    """Three minutes in which the GPU idles beside a busy core, and steps of 0.5 s."""
    for at in range(3):
        minute = MINUTE + at
        write(folder, system_key(minute), lines(minute, cores=[99.0], gpus=[3.0]), packed=at == 1)
        end = 60 * minute + 59.5
        write(folder, timeline_key(end), timeline(steps(range(0, 59, 2), 0.5), minute))
    write(folder, "framework/training_job_end.ts", "")
    return folder


@pytest.mark.parametrize("name", ["j1/profiler-output", "download"])
def test_a_folder(tocsin: Any, tmp_path: Path, name: str) -> None:
    folder = profiled(tmp_path / name)
    said = tocsin("check", str(folder), "--rule", IDLE, "--json")
    assert said.code == 1, said.err
    assert said.json["workers"] == ["algo-1"]
    (rule,) = said.json["rules"]
    assert "a core of algo-1 was above 90 %" in rule["StatusDetails"]
    page = tmp_path / "r.html"
    assert tocsin("report", str(folder), "-o", str(page)).code == 0
    machine = json.loads(page.with_suffix(".json").read_text())["machine"]
    assert machine["nodes"] == ["algo-1"]
    assert machine["minutes"] == 3
    made = tocsin("profile", str(folder), "--trace", str(tmp_path / "t.json"), "--json")
    assert made.code == 0, made.err
    assert made.json["minutes"] == 3


def test_in_s3(tocsin: Any, tmp_path: Path, upload: Any) -> None:
    upload(profiled(tmp_path / "profiler-output"), "jobs/j1/profiler-output")
    upload(tmp_path / "profiler-output", "jobs/copied")
    for place in ("jobs/j1/profiler-output", "jobs/copied"):
        said = tocsin("check", f"s3://capture/{place}", "--rule", IDLE, "--json")
        assert said.code == 1, said.err


def test_smdebugs_own_files(tocsin: Any) -> None:
    said = tocsin("check", str(FIXTURE), "--rule", "StepOutlier", "--json")
    assert said.json["steps"]["evaluated"] == 1
    assert "no such" not in said.err


def test_a_damaged_file_is_a_note(tocsin: Any, tmp_path: Path) -> None:
    folder = profiled(tmp_path / "profiler-output")
    path = folder / system_key()
    path.write_text(path.read_text()[:-9])
    write(folder, system_key(MINUTE + 7), "x\n")
    said = tocsin("check", str(folder), "--rule", IDLE)
    assert "skipped 1 line that is incomplete" in said.err
    assert "no line is a system metric: remove the file" in said.err


@pytest.mark.parametrize("command", ["check", "report"])
def test_profiles_of_tensorflow_alone_are_refused_by_name(
    tocsin: Any, tmp_path: Path, command: str
) -> None:
    profile = tmp_path / "plugins" / "profile" / "run" / "host.xplane.pb"
    profile.parent.mkdir(parents=True)
    profile.write_bytes(b"x")
    complaint = tocsin(command, tmp_path).complaint
    assert "profiles of TensorFlow alone (plugins/profile/run/host.xplane.pb)" in complaint
    assert "TensorBoard" in complaint
