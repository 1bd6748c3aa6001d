"""The end of a training."""

from __future__ import annotations

from tocsin.tensors import open_storage, read_end

__all__ = ["has_training_ended"]


def has_training_ended(trial_prefix: str) -> bool:
    """Return whether the run in a folder or at ``s3://bucket/prefix`` has its end marker."""
    return read_end(open_storage(trial_prefix)) is not None
