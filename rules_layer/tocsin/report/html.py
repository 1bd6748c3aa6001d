"""Fills the template: one HTML file that makes no request and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files

from tocsin.report.page import Page, json_of
from tocsin.report.plain import text_of

_SCRIPTS = (
    "uPlot.iife.min.js",
    "base.js",
    "chart.js",
    "timeline.js",
    "network.js",
    "cards.js",
    "page.js",
)
_STYLES = ("uPlot.min.css", "page.css")


def html_of(page: Page, *, live: str = "") -> str:
    """Return the page as HTML.

    ``live`` is the path of ``report.json`` on the server that the page is from: then the page asks
    for it every two seconds and draws again what has changed. Without it there is no request.
    """
    scripts = [_part(name) for name in (*_sometimes(page, live), *_SCRIPTS)]
    styles = [_part(name) for name in _STYLES]
    return _part("page.html").format(
        policy=_policy(scripts, styles, live),
        title=escape(f"{page.run.job}: {page.verdict.sentence}"),
        styles="\n".join(f"<style>{style}</style>" for style in styles),
        text=text_of(page),
        live=escape(live),
        data=_data(page),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _sometimes(page: Page, live: str) -> Iterator[str]:
    """Yield the scripts of sections that most runs do not have. A live page may get one later."""
    parts = {
        "trees.js": (page.boosted, page.machine),
        "machine.js": (page.machine,),
        "trace.js": (page.step_trace,),
    }
    for name, needed_by in parts.items():
        if live or any(part is not None for part in needed_by):
            yield name


def _data(page: Page) -> str:
    """Return JSON that cannot close its script element."""
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
