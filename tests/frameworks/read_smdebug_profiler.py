"""Prints the tables of a folder of profiler files as smdebug makes them. Runs beside smdebug."""

from __future__ import annotations

import json
import sys

from smdebug.profiler.analysis.utils.pandas_data_analysis import PandasFrameAnalysis, StatsBy
from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame

frame = PandasFrame(sys.argv[1])
system, framework = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
loaders = frame.get_all_dataloader_metrics()
analysis = PandasFrameAnalysis(system.copy(), framework[framework["step"] != -1].copy())
tables = {
    "system": system,
    "framework": framework.drop(columns="tid"),  # a hash: another one in each session
    "loaders": loaders,
    "steps": analysis.get_step_statistics(StatsBy.PROCESS),
    "phases": analysis.get_training_phase_intervals(),
}
print(json.dumps({name: table.to_dict("split", index=False) for name, table in tables.items()}))
