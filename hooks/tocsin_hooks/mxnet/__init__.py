"""The hook for MXNet's Gluon: attached to a network, by the hooks that blocks have themselves."""

from __future__ import annotations

from tocsin_hooks.mxnet.hook import GluonHook

__all__ = ["GluonHook"]
