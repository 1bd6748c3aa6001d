"""Readers of a folder of profiler files, under smdebug's names."""

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.smdebug.absent import absent
from tocsin.smdebug.core.access_layer.utils import has_training_ended
from tocsin.smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from tocsin.smdebug.profiler.analysis.notebook_utils import MetricsHistogram, TrainingJob
from tocsin.smdebug.profiler.system_metrics_reader import LocalSystemMetricsReader
from tocsin.smdebug.profiler.utils import TimeUnits
from tocsin.smdebug.rules.action import Actions
from tocsin.smdebug.trials import LocalTrial

from tests.profiler_files import MINUTE, lines, steps, system_key, timeline, timeline_key, write

RUNS = Path(__file__).parents[2] / "fixtures" / "smdebug"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, system_key(MINUTE), lines(MINUTE, cores=[50.0], ticks=2))
    write(tmp_path, timeline_key(60 * MINUTE + 50), timeline(steps([10, 12], 1.0)))
    return tmp_path


def test_samples(folder: Path) -> None:
    reader = LocalSystemMetricsReader(str(folder))
    begin = 60 * MINUTE
    found = reader.get_events(begin, begin + 60, TimeUnits.SECONDS)
    assert found == reader.get_events(begin * 1_000_000, (begin + 60) * 1_000_000)
    (first, *_) = [event for event in found if event.type == "cpu"]
    assert (first.name, first.value) == ("cpu0", 50.0)
    assert reader.get_events(begin - 60, begin, TimeUnits.SECONDS) == []
    assert reader.get_timestamp_of_first_available_file() <= (
        reader.get_timestamp_of_latest_available_file()
    )


def test_events(folder: Path) -> None:
    reader = LocalAlgorithmMetricsReader(str(folder))
    found = reader.get_events(0, 1 << 52)
    assert [event.duration for event in found] == [10**9, 10**9]
    assert found[0].event_phase.startswith("Step:ModeKeys.TRAIN")
    assert found[-1].end_time // 1000 == reader.get_timestamp_of_latest_available_file()


def test_a_job_is_a_place(folder: Path) -> None:
    job = TrainingJob(f"{folder}/")
    assert job.get_systems_metrics_reader() is None
    job.wait_for_sys_profiling_data_to_be_available(timeout=0)
    job.wait_for_framework_profiling_data_to_be_available(timeout=0)
    assert job.get_framework_metrics_reader() is not None
    with pytest.raises(ValueError, match="s3://bucket/jobs/j1/profiler-output"):
        TrainingJob("j1")


def test_a_job_without_files(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        TrainingJob(str(tmp_path)).wait_for_sys_profiling_data_to_be_available(timeout=0)


@pytest.mark.parametrize("name", [LocalTrial, MetricsHistogram, Actions, absent("X", "do Y")])
def test_what_is_not_there_says_what_to_do(name: type) -> None:
    with pytest.raises(NotImplementedError, match=r"^\w+ is not part of tocsin.smdebug: ."):
        name("anything", some=True)


def test_whether_a_training_has_ended() -> None:
    assert has_training_ended(str(RUNS / "torch_mlp" / "run"))
    assert not has_training_ended(str(RUNS / "multi_worker_running" / "run"))
