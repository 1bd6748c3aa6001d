"""All that is wrong with a watch file, in one go, before a job trains under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tocsin.rules import BadRule, load_files
from tocsin.watch._actions import NOTIFYING, action_fault
from tocsin.watch._bad import BadWatch, Fault
from tocsin.watch._bad import Path as Place
from tocsin.watch._config import Watch
from tocsin.watch._faults import faults
from tocsin.watch._lines import lines
from tocsin.watch._load import is_yaml, watch_bytes
from tocsin.watch._survey import survey

Refuses = Callable[[str, str], str | None]
"""Why a recipient cannot be used, if so: ``email``, ``sms`` or ``webhook``, and who."""


class Problem(NamedTuple):
    """What is wrong with a watch file, and in which line, where that can be told."""

    fault: Fault
    line: int | None

    def at(self, file: str | Path) -> str:
        """``watch.yaml:7: rules[0].actions[1]: unknown action …``"""
        return f"{file}: {self.fault}" if self.line is None else f"{file}:{self.line}: {self.fault}"


def lint(
    file: str | Path, refuses: Refuses, now: datetime | None = None
) -> tuple[Watch | None, tuple[Problem, ...]]:
    """What of a watch file can be used, None if nothing, and all that is wrong with it; with
    ``now`` (aware), so is a silence that is over.

    Runs the files of its ``custom_rules``, for the rules in them. Raises OSError.
    """
    path = Path(file)
    yaml = is_yaml(path)
    try:
        data = watch_bytes(path)
    except BadWatch as error:
        return None, (Problem(Fault((), str(error)), None),)
    try:
        watch, unusable = survey(data, yaml=yaml, now=now)
    except BadWatch as error:
        return None, _placed(data, [Fault((), str(error))], yaml)
    found = [*unusable, *_custom(watch, path), *faults(watch), *_recipients(watch, refuses)]
    return watch, _placed(data, found, yaml)


def _placed(data: bytes, found: list[Fault], yaml: bool) -> tuple[Problem, ...]:
    """In the order of the file; what has no line comes first."""
    at = lines(data, [fault.path for fault in found], yaml=yaml)
    problems = [Problem(fault, line) for fault, line in zip(found, at, strict=True)]
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _custom(watch: Watch, path: Path) -> Iterator[Fault]:
    """Makes the rules known that the file brings along, or says what is wrong with theirs."""
    if watch.custom_rules is None:
        return
    folder = path.parent / watch.custom_rules
    try:
        if folder.is_dir():
            load_files(folder)
        else:
            yield Fault(("custom_rules",), f"{folder} is no folder")
    except BadRule as error:
        yield Fault(("custom_rules",), str(error))


def _recipients(watch: Watch, refuses: Refuses) -> Iterator[Fault]:
    for path, action in _actions(watch):
        kind, colon, recipient = action.partition(":")
        if not colon or kind not in NOTIFYING or action_fault(action):
            continue
        if (why := refuses(kind, recipient)) is not None:
            yield Fault(path, why)


def _actions(watch: Watch) -> Iterator[tuple[Place, str]]:
    """Every action of the file and where it stands."""
    for at, action in enumerate(watch.actions):
        yield ("actions", at), action
    for at, action in enumerate(watch.notify.summary):
        yield ("notify", "summary", at), action
    for rule, config in enumerate(watch.rules or ()):
        for at, action in enumerate(config.actions or ()):
            yield ("rules", rule, "actions", at), action
