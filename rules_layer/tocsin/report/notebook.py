"""The report inside of a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from tocsin.report.html import html_of
from tocsin.report.report import report_on
from tocsin.tensors import open_storage
from tocsin.watch import Watch

HEIGHT = 900  # pixels


@dataclass(frozen=True)
class InlineReport:
    """A report that a notebook shows. ``html`` is the page."""

    html: str

    def _repr_html_(self) -> str:
        return self.in_frame()

    def in_frame(self) -> str:
        """Return the page in a frame, whose scripts can neither see nor change the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        )


def inline(url: str, watch: Watch | None = None) -> InlineReport:
    """Return the report of the run in a folder or at ``s3://bucket/prefix``."""
    return InlineReport(html_of(report_on(open_storage(url), watch)))
