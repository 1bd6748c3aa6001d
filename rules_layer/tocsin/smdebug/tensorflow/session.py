"""The hooks of TensorFlow 1, which have no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["EstimatorHook", "SessionHook"]

_INSTEAD = (
    "train with Keras and KerasHook, or save from your own loop by tocsin_hooks.Hook: "
    "docs/hooks/loop.md"
)
SessionHook = absent("SessionHook", _INSTEAD)
EstimatorHook = absent("EstimatorHook", _INSTEAD)
