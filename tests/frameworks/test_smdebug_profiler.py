"""The profiler's tables are those of the real smdebug."""

from __future__ import annotations

import json
from pathlib import Path

from tocsin.profile import PandasFrame, PandasFrameAnalysis, StatsBy

from tests.frameworks.environment import answer
from tests.profiler_files import (
    MINUTE,
    lines,
    steps,
    system_key,
    timeline,
    timeline_key,
    write,
)


def test_tables(tmp_path: Path) -> None:
    for minute in (MINUTE, MINUTE + 1):
        write(tmp_path, system_key(minute), lines(minute, gpus=(80.0,), interval=5, ticks=12))
    loader = {"pid": 7, "worker_id": 0, "num_workers": 2, "pin_memory": False}
    events = [
        *steps([10, 12], 1.0),
        ("Forward", "Net", 10.1, 0.4, {"pid": 7, "step_num": "0"}),
        ("DataLoaderIter", "GetNext", 11.5, 0.3, loader),
        *steps([30], 1.5, "EVAL"),
    ]
    write(tmp_path, timeline_key(60 * MINUTE + 50), timeline(events))
    frame = PandasFrame(str(tmp_path))
    system, framework = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
    analysis = PandasFrameAnalysis(system, framework[framework["step"] != -1])
    ours = {
        "system": system,
        "framework": framework.drop(columns="tid"),
        "loaders": frame.get_all_dataloader_metrics(),
        "steps": analysis.get_step_statistics(StatsBy.PROCESS),
        "phases": analysis.get_training_phase_intervals(),
    }
    theirs = answer("smdebug", "read_smdebug_profiler.py", tmp_path)
    for name, table in ours.items():
        assert json.loads(json.dumps(table.to_dict("split", index=False))) == theirs[name], name
