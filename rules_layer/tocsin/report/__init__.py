"""The report of a run: one page that opens anywhere, and the JSON that it draws."""

from tocsin.report.history import History
from tocsin.report.html import html_of
from tocsin.report.page import Alert, Headline, Page, json_of
from tocsin.report.report import compared, page_of, report_on
from tocsin.report.trace import Trace
from tocsin.report.verdict import headline

__all__ = [
    "Alert",
    "Headline",
    "History",
    "Page",
    "Trace",
    "compared",
    "headline",
    "html_of",
    "json_of",
    "page_of",
    "report_on",
]
