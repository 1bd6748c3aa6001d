"""Two processes train one model: each is a worker of the run, and they stop together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tocsin import create_trial
from xgboost.tracker import RabitTracker

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).with_name("distributed.py")


def test_ranks_are_workers_and_stop_together(tmp_path: Path) -> None:
    tracker = RabitTracker(n_workers=2, host_ip="127.0.0.1")
    tracker.start()
    found = tracker.worker_args()
    address, port = str(found["dmlc_tracker_uri"]), str(found["dmlc_tracker_port"])
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path), str(rank), "2", address, port],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=PATIENCE) for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], said
    ranks_said, rounds = zip(*(output.split()[-2:] for output, _ in said), strict=True)
    assert sorted(ranks_said) == ["0", "1"]
    assert rounds in (("6", "6"), ("7", "7"))  # by which callback XGBoost calls first
    trial = create_trial(tmp_path)
    assert trial.workers() == ["worker_0", "worker_1"]
    assert trial.steps()[:3] == [0, 2, 4]
    assert trial.tensor("labels").value(4, worker="worker_1").shape == (50,)
