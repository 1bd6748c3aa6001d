"""Deploys Tocsin with the CDK: ``from tocsin_cdk import Tocsin`` in an app of your own.

The names are fetched when they are asked for: the options can be read without the CDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin_cdk.construct import Tocsin
    from tocsin_cdk.option_parsers import OptionError
    from tocsin_cdk.options import DeploymentOptions
    from tocsin_cdk.stack import TocsinStack

__all__ = ["DeploymentOptions", "OptionError", "Tocsin", "TocsinStack"]

_MODULES = {"OptionError": "option_parsers", "Tocsin": "construct", "TocsinStack": "stack"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'options')}"), name)
