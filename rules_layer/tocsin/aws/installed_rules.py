"""The rules that a deployment brings, loaded at the cold start."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec

from tocsin.rules import ENTRY_POINTS

CUSTOM = "tocsin_custom_rules"


def load_installed_rules() -> None:
    """As ``tocsin.custom.load_installed``, without loading what runs them where there are none."""
    if find_spec(CUSTOM) is not None or entry_points(group=ENTRY_POINTS):
        from tocsin.custom import load_installed

        load_installed()
