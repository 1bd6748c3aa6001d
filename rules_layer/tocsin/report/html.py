"""Fills the template: one HTML file that makes no request and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from importlib.resources import files

from tocsin.model import RuleStatus
from tocsin.report.page import Machine, Page, json_of

_SCRIPTS = (
    "uPlot.iife.min.js",
    "base.js",
    "chart.js",
    "timeline.js",
    "network.js",
    "cards.js",
    "page.js",
)
_MACHINE, _TRACE = "machine.js", "trace.js"  # only in pages that have one
_STYLES = ("uPlot.min.css", "page.css")


def html_of(page: Page, *, live: str = "") -> str:
    """The page as HTML.

    ``live`` is the path of ``report.json`` on the server that the page is from: then the page asks
    for it every two seconds and draws again what has changed. Without it there is no request.
    """
    own = {_MACHINE: page.machine, _TRACE: page.step_trace}
    names = [name for name, part in own.items() if part is not None]
    scripts = [_part(name) for name in (*names, *_SCRIPTS)]
    styles = [_part(name) for name in _STYLES]
    verdict, run = page.verdict, page.run
    rows = "".join(
        f"<tr><td>{escape(rule.name)}<td>{escape(rule.status)}<td>{escape(rule.details)}"
        for rule in page.rules
    )
    return _part("page.html").format(
        policy=_policy(scripts, styles, live),
        title=escape(f"{run.job}: {verdict.sentence}"),
        styles="\n".join(f"<style>{style}</style>" for style in styles),
        job=escape(run.job),
        sentence=escape(verdict.sentence),
        detail=escape(verdict.detail),
        rules=rows,
        machine=_machine(page.machine),
        live=escape(live),
        data=_data(page),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _machine(machine: Machine | None) -> str:
    """The findings and statistics of the machines, as text and a table."""
    if machine is None:
        return ""
    rules = "".join(
        f"<li>{escape(rule.name)}: {escape(rule.details)}"
        for rule in machine.rules
        if rule.status == RuleStatus.ISSUES_FOUND
    )
    rows = "".join(
        f"<tr><td>{escape(each.name)}<td>{escape(each.unit)}"
        + "".join(f"<td>{_number(value)}" for value in (each.p50, each.p95, each.p99))
        for each in machine.statistics
    )
    return (
        f"<h2>The machine</h2>\n<p>{escape(machine.sentence)}\n<ul>{rules}</ul>\n"
        f"<table><thead><tr><th>metric<th>unit<th>p50<th>p95<th>p99<tbody>{rows}</table>\n"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _data(page: Page) -> str:
    """JSON that cannot end its script element, whatever it says."""
    text = json_of(page).decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _policy(scripts: list[str], styles: list[str], live: str) -> str:
    parts = [
        "default-src 'none'",
        "img-src data:",
        f"style-src {' '.join(map(_hash, styles))}",
        f"script-src {' '.join(map(_hash, scripts))}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*parts, "connect-src 'self'"] if live else parts)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _part(name: str) -> str:
    return (files("tocsin.report") / "template" / name).read_text("utf-8")
