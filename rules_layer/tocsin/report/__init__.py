"""The report of a run: one page that opens anywhere, and the JSON that it draws."""

from tocsin.evaluation import Trace
from tocsin.report.history import History
from tocsin.report.html import html_of
from tocsin.report.machine import machine_beside, machine_of, stored_machine
from tocsin.report.machine_parts import StepTrace
from tocsin.report.notebook import InlineReport, inline
from tocsin.report.page import Page, json_of
from tocsin.report.parts import Alert, Headline
from tocsin.report.report import compared, page_of, report_on
from tocsin.report.stored import stored_page
from tocsin.report.taken import actions_of
from tocsin.report.verdict import fired, headline, leads, too_early

__all__ = [
    "Alert",
    "Headline",
    "History",
    "InlineReport",
    "Page",
    "StepTrace",
    "Trace",
    "actions_of",
    "compared",
    "fired",
    "headline",
    "html_of",
    "inline",
    "json_of",
    "leads",
    "machine_beside",
    "machine_of",
    "page_of",
    "report_on",
    "stored_machine",
    "stored_page",
    "too_early",
]
