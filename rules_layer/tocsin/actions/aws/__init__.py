"""The AWS side of actions: one adapter per service."""

from __future__ import annotations

from tocsin.actions.aws._bus import Bus
from tocsin.actions.aws._endpoints import Endpoints
from tocsin.actions.aws._metrics import MetricSink
from tocsin.actions.aws._recent import recent
from tocsin.actions.aws._run_files import RunFiles
from tocsin.actions.aws._sagemaker import SageMaker
from tocsin.actions.aws._topic import Topic, unconfirmed

__all__ = [
    "Bus",
    "Endpoints",
    "MetricSink",
    "RunFiles",
    "SageMaker",
    "Topic",
    "recent",
    "unconfirmed",
]
