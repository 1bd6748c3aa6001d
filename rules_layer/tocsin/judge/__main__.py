"""``python -m tocsin.judge RUN STARTED [page]``: the judge of a hook, in a process of its own.

Evaluates the run with the code of ``tocsin check --follow``. Writes a line of JSON for each thing
that the hook is to log, or to pass on. Ends when the hook says so on stdin, after a last look; and
at once when the training's process has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import msgspec

from tocsin.custom import load_installed
from tocsin.events import LastGood, RunEvent, StatusChange
from tocsin.judge.findings import Findings, Several
from tocsin.judge.following import Following
from tocsin.judge.notify import Notifier
from tocsin.judge.targets import target_of
from tocsin.profile import open_run
from tocsin.report import inline, leads
from tocsin.tensors import INDEX, Storage

_NOTIFY = "TOCSIN_NOTIFY"
PAUSE = 0.25  # seconds between two looks
_SHARE = 4  # a look at a long run takes a fifth of the time at most
_FILE_CLOCK, _S3_CLOCK = 0.02, 5.0  # seconds by which files may seem older than they are
_NICE = 5  # the training goes first


@dataclass(frozen=True)
class _Lines:
    """Writes to the hook: a status change without the statuses of the run's other rules."""

    out: TextIO
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, **what: Any) -> None:
        with self.lock:
            self.out.write(msgspec.json.encode(what).decode() + "\n")
            self.out.flush()

    def say(self, text: str) -> None:
        self.write(say=text)

    def publish(self, events: Sequence[RunEvent]) -> None:
        for event in events:
            if isinstance(event, StatusChange):
                change = msgspec.structs.replace(event, debug_rule_evaluation_statuses=())
                self.write(change=change)


@dataclass
class _Parent:
    """The training's process: ``over`` when the run is complete, gone when it has died."""

    source: TextIO
    pid: int
    over: threading.Event = field(default_factory=threading.Event)

    def listen(self) -> None:
        for _ in self.source:
            self.over.set()
        os._exit(0)  # nobody reads what we find

    def is_gone(self) -> bool:
        return os.getppid() != self.pid  # a worker of a data loader may hold our stdin open


def table(document: dict[str, Any]) -> Iterator[str]:
    """Yield the findings, the cause first, a line for each; those that one explains are named with
    it."""
    found = leads(document)
    run, steps = _short(document["run"]), document["steps"]["evaluated"]
    findings = f"{len(found) or 'no'} finding{'' if len(found) == 1 else 's'}"
    if not steps:
        findings = "nothing was judged"
    yield f"{findings} in {steps} saved steps of {run}"
    width = max((len(lead["RuleConfigurationName"]) for lead, *_ in found), default=0)
    for lead, *explained in found:
        at = lead["FirstViolation"]
        step = "" if at is None else f"step {at['step']}"
        name, severity = lead["RuleConfigurationName"], lead["Severity"] or ""
        yield f"  {step:<10}  {severity:<8}  {name:<{width}}  {lead['StatusDetails']}"
        if explained:
            yield f"  explains {', '.join(each['RuleConfigurationName'] for each in explained)}"
    if (good := document["last_good"]) and good["Checkpoint"]:
        yield f"  last good: {msgspec.convert(good, LastGood).text}"
    if found:
        yield f"what to do: tocsin check {run}"


def _short(run: str) -> str:
    """The run as it may be typed here: a path relative to this folder, if it is below it."""
    here = f"{Path.cwd()}{os.sep}"
    return run.removeprefix(here)


def judge(run: str, started: float, lines: _Lines, parent: _Parent, page: bool = False) -> None:
    """Judge until the hook has written everything or its process has ended.

    page: write the report at the end, for a notebook.
    """
    storage = open_run(run)
    findings = Findings(
        storage, time.time, lines.say, lambda alert: lines.write(stop=alert.rule_configuration_name)
    )
    notifier = _notifier(storage, lines)
    following = Following(
        storage, None, publisher=Several([lines, findings, *filter(None, (notifier,))])
    )
    _wait_for_news(storage, started, parent)
    while not parent.is_gone():
        over, begun = parent.over.is_set(), time.monotonic()
        following.look()
        if over:
            for line in table(following.document):
                lines.say(line)
            if notifier is not None:
                notifier.close()
            if page:
                lines.write(page=inline(run).in_frame())
            return
        parent.over.wait(max(PAUSE, _SHARE * (time.monotonic() - begun)))


def _notifier(storage: Storage, lines: _Lines) -> Notifier | None:
    """Return what notifies the targets of the variable: ``slack=URL``, or several with
    spaces between."""
    try:
        targets = [target_of(text) for text in os.environ.get(_NOTIFY, "").split()]
    except ValueError as error:
        lines.say(str(error).replace("--notify", _NOTIFY))
        return None
    return Notifier(storage.url, targets, time.time, lines.say) if targets else None


def _wait_for_news(storage: Storage, started: float, parent: _Parent) -> None:
    """Wait for the first save, and ignore files of an earlier training."""
    since = started - (_S3_CLOCK if storage.url.startswith("s3://") else _FILE_CLOCK)
    while not (parent.is_gone() or any(each.modified >= since for each in storage.list(INDEX))):
        if parent.over.wait(PAUSE):
            return


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
    if hasattr(os, "nice"):
        os.nice(_NICE)
    run, started, training, *options = sys.argv[1:]
    parent = _Parent(sys.stdin, int(training))  # it may have died since it started us
    threading.Thread(target=parent.listen, daemon=True).start()
    lines = _Lines(sys.stdout)
    try:
        load_installed()
        judge(run, float(started), lines, parent, "page" in options)
    except Exception as error:  # noqa: BLE001 - the training goes on, and its log says why
        lines.say(f"the run is no longer judged: {type(error).__name__}: {error}")
    sys.stdout.flush()
    os._exit(0)  # a thread reads stdin, which only the hook can close


if __name__ == "__main__":
    main()
