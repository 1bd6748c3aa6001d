"""Finds all faults of a watch file before a job uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from reprlib import repr as short
from typing import NamedTuple

from tocsin.rules import BadRule
from tocsin.watch.actions import NOTIFYING, action_fault
from tocsin.watch.config import Watch
from tocsin.watch.errors import BadWatch, Fault
from tocsin.watch.errors import Path as Place
from tocsin.watch.lines import lines, repeated_keys
from tocsin.watch.load import is_yaml, parse_parts, watch_bytes
from tocsin.watch.validation import faults

Refuses = Callable[[str, str], str | None]
"""Called with ``email``, ``sms`` or ``webhook``, and a recipient: why it is refused, or None."""

Loads = Callable[[Path], None]
"""Loads the rules in a folder. Raises BadRule."""


class FaultInLine(NamedTuple):
    """A fault and its line in the file; None if that is not known."""

    fault: Fault
    line: int | None

    def at(self, file: str | Path) -> str:
        """``watch.yaml:7: rules[0].actions[1]: unknown action …``"""
        return f"{file}: {self.fault}" if self.line is None else f"{file}:{self.line}: {self.fault}"


def lint(
    file: str | Path, refuses: Refuses, load: Loads, now: datetime | None = None
) -> tuple[Watch | None, tuple[FaultInLine, ...]]:
    """Return the usable parts of a watch file, None if there are none, and all its faults.

    With ``now`` (aware), a silence that has ended is a fault. ``load`` loads the rules of its
    ``custom_rules``. Raises OSError.
    """
    path = Path(file)
    yaml = is_yaml(path)
    try:
        data = watch_bytes(path)
    except BadWatch as error:
        return None, (FaultInLine(Fault((), str(error)), None),)
    try:
        watch, unusable = parse_parts(data, yaml=yaml, now=now)
    except BadWatch as error:
        return None, _in_lines(data, [Fault((), str(error))], yaml)
    if not data.strip():
        text = "is empty: name rules under `rules:`, or use no watch file for the default rules"
        return watch, (FaultInLine(Fault((), text), None),)
    repeated = [
        FaultInLine(Fault((), f"key {short(key)} appears twice: the last one counts"), line)
        for key, line in repeated_keys(data, yaml=yaml)
    ]
    found = [*unusable, *_custom(watch, path, load), *faults(watch), *_recipients(watch, refuses)]
    return watch, _in_order([*repeated, *_in_lines(data, found, yaml)])


def _in_order(problems: Iterable[FaultInLine]) -> tuple[FaultInLine, ...]:
    """In the order of the file, those without a line first."""
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _in_lines(data: bytes, found: list[Fault], yaml: bool) -> tuple[FaultInLine, ...]:
    """Faults with their lines."""
    at = lines(data, [fault.path for fault in found], yaml=yaml)
    return _in_order(FaultInLine(fault, line) for fault, line in zip(found, at, strict=True))


def _custom(watch: Watch, path: Path, load: Loads) -> Iterator[Fault]:
    """Load the file's ``custom_rules``; yield a fault if that fails."""
    if watch.custom_rules is None:
        return
    folder = path.parent / watch.custom_rules
    try:
        if folder.is_dir():
            load(folder)
        else:
            yield Fault(("custom_rules",), f"{folder} is not a folder")
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
    """Every action of the file with its path."""
    for at, action in enumerate(watch.actions):
        yield ("actions", at), action
    for at, action in enumerate(watch.notify.summary):
        yield ("notify", "summary", at), action
    for rule, config in enumerate(watch.rules or ()):
        for at, action in enumerate(config.actions or ()):
            yield ("rules", rule, "actions", at), action
