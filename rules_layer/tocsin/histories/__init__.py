"""Scalars that other tools have recorded, read as a run.

A history is a folder of TensorBoard, MLflow or another tool, or a file: a table of any tool as CSV
or JSON, or what a training printed. ``reader_of`` finds out which it is. What has rows is a
``Table``, whose columns are read in one way whatever tool wrote them. ``as_run`` makes a run in
memory of what the reader yields, of one of the trainings in it, and ``HistoryRun`` one that grows
with the history.
"""

from tocsin.histories.columns import Columns
from tocsin.histories.detect import reader_of
from tocsin.histories.machine import GPU, STEP, WAIT
from tocsin.histories.run import BY_NAMES, Choices, HistoryRun, as_run
from tocsin.histories.scalar import BadHistory, Reader, Scalar

__all__ = [
    "BY_NAMES",
    "GPU",
    "STEP",
    "WAIT",
    "BadHistory",
    "Choices",
    "Columns",
    "HistoryRun",
    "Reader",
    "Scalar",
    "as_run",
    "reader_of",
]
