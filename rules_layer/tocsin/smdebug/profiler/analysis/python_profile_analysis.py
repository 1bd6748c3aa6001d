"""Profiles of Python, which have no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["PyinstrumentAnalysis", "cProfileAnalysis"]

_INSTEAD = "`py-spy record -o flame.svg --pid PID`, or `python -m cProfile -o out.pstats train.py`"
cProfileAnalysis = absent("cProfileAnalysis", _INSTEAD)  # noqa: N816 - smdebug's name
PyinstrumentAnalysis = absent("PyinstrumentAnalysis", _INSTEAD)
