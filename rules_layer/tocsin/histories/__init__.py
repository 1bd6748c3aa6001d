"""Scalars that other tools have recorded, read as a run.

A history is a folder of TensorBoard or MLflow, or a file: an export of Weights & Biases or any
other CSV, JSON lines, ``trainer_state.json`` of the Hugging Face Trainer. ``reader_of`` finds out
which it is, ``as_run`` makes a run in memory of what the reader yields, and ``HistoryRun`` one that
grows with the history.
"""

from tocsin.histories.detect import reader_of
from tocsin.histories.run import HistoryRun, as_run
from tocsin.histories.scalar import BadHistory, Reader, Scalar

__all__ = ["BadHistory", "HistoryRun", "Reader", "Scalar", "as_run", "reader_of"]
