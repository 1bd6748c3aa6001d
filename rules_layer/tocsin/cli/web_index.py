"""The list of runs that ``tocsin watch FOLDER --web`` begins with."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from urllib.parse import quote

from tocsin.cli.run_view import RunView
from tocsin.cli.screen import ago, last_step
from tocsin.evaluation import state_of

_STYLE = """
:root{color-scheme:light dark}
body{margin:24px auto;max-width:1180px;padding:0 20px;font:15px/1.5 system-ui,sans-serif;
 background:light-dark(#fff,#10151b);color:light-dark(#18202a,#e6ebf0)}
h1{overflow-wrap:anywhere}
a{color:light-dark(#0a55c2,#82b6ff)} .wide{overflow-x:auto}
table{border-collapse:collapse;width:100%} th,td{text-align:left;padding:6px 10px;
 vertical-align:top;border-bottom:1px solid light-dark(#d5dbe2,#2d3742)}
td{overflow-wrap:anywhere;min-width:4em}
.critical{color:light-dark(#b42318,#ff8a80)} .warning{color:light-dark(#885100,#f3b845)}
.ok{color:light-dark(#16693a,#5fd394)} .none{color:light-dark(#586371,#8f9ba8)}
.critical,.warning,.ok,.none{font-weight:600;white-space:nowrap} small{display:block}
polyline{fill:none;stroke:light-dark(#1f5fbf,#6ea8fe);stroke-width:1.5}
@media(max-width:640px){
 body{padding:0 12px} h1{font-size:21px} thead tr{display:flex;flex-wrap:wrap}
 tbody tr{display:grid;grid-template-columns:2.4em 1fr auto;padding:8px 0;
  border-bottom:1px solid light-dark(#d5dbe2,#2d3742)}
 th,td{border:0;padding:2px 6px} td:nth-child(3){grid-area:2/2/3/4} td:nth-child(5){grid-area:1/3}
 td:nth-child(4){grid-area:3/2} td:nth-child(6){grid-area:3/3;text-align:right}
}
button{font:inherit;padding:4px 14px;margin:14px 0}
"""
_SCRIPT = """
setInterval(async () => {
  try {
    const text = await (await fetch(location.href)).text();
    const rows = new DOMParser().parseFromString(text, "text/html").querySelector("tbody");
    const chosen = [...document.querySelectorAll("input:checked")].map(box => box.value);
    for (const box of rows.querySelectorAll("input")) box.checked = chosen.includes(box.value);
    document.querySelector("tbody").replaceWith(rows);
  } catch { document.querySelector("#state").textContent = "No longer served."; }
}, 5000);
"""
_WORDS = {
    "critical": "▲ critical",
    "warning": "▲ warning",
    "ok": "✓ no issues",
    "none": "– not judged",
}
_WIDE, _HIGH, _POINTS = 120, 24, 60

_Key = Callable[[tuple[str, RunView]], tuple[object, ...]]
_SORTS: Mapping[str, tuple[str, _Key]] = {
    "age": ("last step", lambda item: (_last(item[1].idle), item[0])),
    "verdict": ("verdict", lambda item: (list(_WORDS).index(item[1].headline.level), item[0])),
    "run": ("run", lambda item: (item[0],)),
    "loss": ("loss", lambda item: (_last(_loss(item[1])), item[0])),
    "step": ("step", lambda item: (-(item[1].document["steps"]["last"] or 0), item[0])),
}
_COLUMNS = ("verdict", "run", "loss", "step", "age")
DEFAULT_SORT = "age"


def index_page(folder: str, views: Mapping[str, RunView], sort: str) -> str:
    """Return the page; ``sort`` is a column, else the runs with the newest steps are first."""
    sort = sort if sort in _SORTS else DEFAULT_SORT
    rows = sorted(views.items(), key=_SORTS[sort][1])
    heads = "".join(_head(column, sort) for column in _COLUMNS)
    policy = (
        f"default-src 'none'; style-src '{_hash(_STYLE)}'; script-src '{_hash(_SCRIPT)}'; "
        "img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'"
    )
    table = (
        f'<form action="/compare"><div class="wide"><table><thead><tr><th>compare{heads}</thead>'
        f"<tbody>{''.join(_row(name, view) for name, view in rows)}</tbody></table></div>"
        "<button>Compare the chosen runs</button></form>"
    )
    state = "" if rows else "No run is in this folder yet."
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="icon" href="data:,">'
        f"<title>Runs in {escape(folder)}</title><style>{_STYLE}</style>"
        f'<h1>Runs in {escape(folder)}</h1><p id="state">{state}</p>{table}'
        f"<script>{_SCRIPT}</script>"
    )


def _head(column: str, sort: str) -> str:
    chosen = ' aria-sort="ascending"' if column == sort else ""
    return f'<th{chosen}><a href="/?sort={column}">{_SORTS[column][0]}</a>'


def _row(name: str, view: RunView) -> str:
    level = view.headline.level
    label = escape(f"compare {name}")
    state = state_of(view.document)
    age = "no step" if view.idle is None else f"{_minutes(view.idle)} ago"
    return (
        f'<tr><td><input type="checkbox" name="run" value="{escape(name)}" aria-label="{label}">'
        f'<td class="{level}">{_WORDS[level]}'
        f'<td><a href="/run/{quote(name)}/">{escape(name)}</a>'
        f"<small>{escape(view.headline.sentence)}</small>"
        f"<td>{_sparkline(_values(view))}<td>{escape(last_step(view.document))}"
        f"<td>{age}, {state}"
    )


def _minutes(seconds: float) -> str:
    """Whole minutes and hours, so that a page without news stays as it is for a minute."""
    return "under a minute" if seconds < 60 else ago(60.0 * (seconds // 60))


def _values(view: RunView) -> Sequence[float | None]:
    return view.losses[0].y if view.losses else ()


def _loss(view: RunView) -> float | None:
    return next((value for value in reversed(_values(view)) if value is not None), None)


def _last(value: float | None) -> float:
    """Runs without one come last."""
    return math.inf if value is None else value


def _sparkline(values: Sequence[float | None]) -> str:
    """The loss, on a logarithmic scale where it is positive, and its last value."""
    if not values:
        return ""
    stride = max(1, math.ceil(len(values) / _POINTS))
    finite = [value for value in values[::stride] if value is not None]
    last = "not finite" if values[-1] is None else f"{values[-1]:.4g}"
    if len(finite) < 2:
        return last
    scaled = [math.log(value) for value in finite] if min(finite) > 0 else finite
    low, high = min(scaled), max(scaled)
    across = _WIDE / (math.ceil(len(values) / stride) - 1)
    up = (_HIGH - 4) / (high - low) if high > low else 0.0
    points = " ".join(
        f"{at * across:.1f},{_HIGH - 2 - (y - low) * up:.1f}" for at, y in enumerate(scaled)
    )
    return (
        f'<svg width="{_WIDE}" height="{_HIGH}" role="img" aria-label="loss, last {last}">'
        f'<polyline points="{points}"/></svg><small>{last}</small>'
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
