"""Opens a run as a notebook does: as a trial that can show its report."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from tocsin.trial import Trial
from tocsin.trial import create_trial as open_trial

if TYPE_CHECKING:
    from tocsin.report import InlineReport

P = ParamSpec("P")


def _inline(url: str) -> InlineReport:
    from tocsin.report import inline  # when it is asked for: a trial needs none of it

    return inline(url)


def _with_report(opens: Callable[P, Trial]) -> Callable[P, Trial]:
    @wraps(opens)
    def create_trial(*args: P.args, **options: P.kwargs) -> Trial:
        trial = opens(*args, **options)
        trial.reporter = _inline
        return trial

    return create_trial


create_trial = _with_report(open_trial)
