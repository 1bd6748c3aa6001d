"""The hook for XGBoost: a callback of ``xgb.train`` and of the scikit-learn interface."""

from __future__ import annotations

from tocsin_hooks.xgboost.callback import TocsinCallback

__all__ = ["TocsinCallback"]
