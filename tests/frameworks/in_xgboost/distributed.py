"""One rank of a training in several processes: ``distributed.py RUN RANK SIZE ADDRESS PORT``.

The last rank asks for a stop of its own, which all of them have to follow in the same round.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np
import xgboost as xgb
from tocsin_hooks.xgboost import TocsinCallback
from xgboost import collective


class Asking(xgb.callback.TrainingCallback):
    """Sees to it that this rank's hook wants to stop after round 5."""

    def __init__(self, watched: TocsinCallback) -> None:
        super().__init__()
        self._watched = watched

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch == 5 and self._watched.hook is not None:
            self._watched.hook.stop_on_sigterm()
            os.kill(os.getpid(), signal.SIGTERM)
        return False


def main(run: str, rank: int, size: int, address: str, port: int) -> None:
    arguments = {"dmlc_tracker_uri": address, "dmlc_tracker_port": port, "dmlc_task_id": str(rank)}
    with collective.CommunicatorContext(**arguments, dmlc_nworker=size):
        features = np.random.default_rng(rank).normal(size=(50, 3))
        labels = (features[:, 0] > 0).astype(int)
        matrix = xgb.DMatrix(features, label=labels)
        callback = TocsinCallback(
            run, validation=(features, labels), save_interval=2, max_overhead=1
        )
        before = [Asking(callback)] if rank == size - 1 else []
        booster = xgb.train(
            {"objective": "binary:logistic", "max_depth": 2, "nthread": 1},
            matrix,
            50,
            evals=[(matrix, "train")],
            verbose_eval=False,
            callbacks=[*before, callback],
        )
        print(collective.get_rank(), booster.num_boosted_rounds())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
