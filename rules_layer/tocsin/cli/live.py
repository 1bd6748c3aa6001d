"""``tocsin watch`` and ``tocsin status --watch``: draws again and again until q or the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tocsin.cli.keys import Pressed, pressed_keys
from tocsin.cli.not_judged import exit_code
from tocsin.cli.output import lines_to_stdout, note
from tocsin.cli.run_list import Look, runs_table
from tocsin.cli.run_view import RunView, RunWatch
from tocsin.cli.screen import change_line, facts, news, screen
from tocsin.evaluation import state_of
from tocsin.events import DETAIL_TYPES
from tocsin.judge import PAUSE

FOLDER_PAUSE = 2.0
STACK_PAUSE = 10.0
"""Seconds between two looks. A look at a stack is a listing, and a GET for each run with news."""

Show = Callable[[RenderableType], None]

_FOOTER = "press q to quit; the training continues"


class Quit(Exception):
    """The user pressed q."""


def watch_run(run: RunWatch, *, as_json: bool = False, until_idle: float | None = None) -> int:
    """Show the run until it ends, or q or Ctrl-C. Returns the exit code.

    as_json: a line of JSON for each event instead, as EventBridge has it.
    until_idle: seconds without a new step after which a run also ends, as a history does not.
    """
    console = Console(highlight=False, emoji=False, markup=False)
    try:
        if as_json:
            view = _in_lines(run, _events, until_idle)
        elif can_draw(console):
            view = _drawn(run, console, until_idle)
        else:
            view = _in_lines(run, _changes, until_idle)
            lines_to_stdout([facts(view), view.headline.sentence])
    except (Quit, KeyboardInterrupt):
        return 0
    return exit_code(view.document)


def watch_runs(look: Look, pause: float) -> int:
    """Show all runs until q or Ctrl-C. Without a terminal there is a line when one changes."""
    console = Console(highlight=False, emoji=False, markup=False)
    try:
        if not can_draw(console):
            _runs_in_lines(look, pause)
        with drawing(console) as (show, wait):
            while True:
                table = runs_table(look(), console.size.height, datetime.now(UTC))
                show(Group(table, Text(f"\n{_FOOTER}", "dim")))
                wait(pause)
    except (Quit, KeyboardInterrupt):
        return 0


def _runs_in_lines(look: Look, pause: float) -> None:
    shown: dict[str, str] = {}
    with pressed_keys() as pressed:
        while True:
            for run in look()["runs"]:
                text = f"{run['job']}  {run['RuleEvaluationStatus'] or '-'}, {state_of(run)}"
                if shown.get(run["run"]) != text:
                    lines_to_stdout([text])
                shown[run["run"]] = text
            pressed(pause)


def can_draw(console: Console) -> bool:
    """Return whether stdout is a terminal that moves its cursor and has blocks."""
    blocks = "utf" in (sys.stdout.encoding or "").lower()
    return console.is_terminal and not console.is_dumb_terminal and blocks


@contextmanager
def drawing(console: Console) -> Iterator[tuple[Show, Pressed]]:
    """Redraws in place and waits for keys, inside the block.

    A wait raises Quit if q was pressed.
    """
    with pressed_keys() as pressed, Live(console=console, auto_refresh=False) as live:

        def wait(seconds: float) -> str:
            if (key := pressed(seconds)) in ("q", "Q"):
                raise Quit
            return key

        yield lambda drawn: live.update(drawn, refresh=True), wait


def _has_ended(view: RunView, until_idle: float | None) -> bool:
    idle = until_idle is not None and view.idle is not None and view.idle >= until_idle
    return idle or bool(view.document["finished"])


def _drawn(run: RunWatch, console: Console, until_idle: float | None) -> RunView:
    with drawing(console) as (show, wait):

        def on_step(step: int) -> None:
            wait(0.0)  # a long run is evaluated for seconds: q ends that, too

        show(Text(f"evaluating {run.storage.url}", "dim"))
        while True:
            view = run.look(on_step)
            ended = _has_ended(view, until_idle)
            size = console.size
            show(screen(view, size.width, size.height - 1, footer="" if ended else _FOOTER))
            if ended:
                return view
            wait(PAUSE)


def _changes(view: RunView) -> list[str]:
    return [change_line(change).plain for change in news(view.changes)]


def _events(view: RunView) -> list[str]:
    wrapped = ({"detail-type": DETAIL_TYPES[type(each)], "detail": each} for each in view.events)
    return [msgspec.json.encode(each).decode() for each in wrapped]


def _in_lines(
    run: RunWatch, lines_of: Callable[[RunView], list[str]], until_idle: float | None
) -> RunView:
    shown, waits = 0, False
    with pressed_keys() as pressed:
        while True:
            view = run.look()
            lines = lines_of(view)
            lines_to_stdout(lines[shown:])
            shown = len(lines)
            if _has_ended(view, until_idle):
                return view
            if view.idle is None and not waits:
                note(f"waiting for the first step in {run.storage.url}")
                waits = True
            pressed(PAUSE)
