"""Judges a run while its training writes it: beside ``tocsin check --follow``, and as the child
process of a hook (``python -m tocsin.judge``).
"""

from tocsin.judge.findings import Findings, Several, change_line
from tocsin.judge.following import PAUSE, Following

__all__ = ["PAUSE", "Findings", "Following", "Several", "change_line"]
