"""Facts about SageMaker's container."""

from __future__ import annotations

import os

__all__ = ["is_sagemaker_job"]


def is_sagemaker_job() -> bool:
    """Return whether this process is part of a training job of SageMaker."""
    return "TRAINING_JOB_NAME" in os.environ
