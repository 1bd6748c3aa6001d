"""The hook for Keras."""

from __future__ import annotations

from typing import Any

from tocsin.smdebug import CollectionKeys, ReductionConfig, SaveConfig, SaveConfigMode, modes
from tocsin.smdebug.tensorflow.collection import Collection
from tocsin.smdebug.tensorflow.keras import KerasHook
from tocsin.smdebug.tensorflow.session import EstimatorHook, SessionHook
from tocsin.smdebug.tensorflow.singleton_utils import del_hook, get_hook, set_hook

__all__ = [
    "Collection",
    "CollectionKeys",
    "EstimatorHook",
    "KerasHook",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "SessionHook",
    "create_trial",
    "del_hook",
    "get_hook",
    "modes",
    "set_hook",
]


def create_trial(*arguments: Any, **options: Any) -> Any:
    """Open a run for reading; see ``tocsin.create_trial``."""
    from tocsin.trial import create_trial as create  # a training process need not load it

    return create(*arguments, **options)
