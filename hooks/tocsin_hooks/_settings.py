"""What to capture: the arguments of a hook and its watch file, put together."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tocsin.model import Mode
from tocsin.rules import find_rule
from tocsin.tensors import REDUCTIONS, search
from tocsin.watch import (
    BadWatch,
    Capture,
    CollectionConfig,
    Fault,
    SaveConfig,
    Watch,
    belongs,
    built_in,
    patterns,
    plain_capture,
    read_watch,
    reductions,
    resolve,
    to_capture,
)

from tocsin_hooks._container import switched_off
from tocsin_hooks._plan import SCALARS
from tocsin_hooks._schedule import Due, Schedule
from tocsin_hooks._wishes import matches

__all__ = [
    "DEFAULT_COLLECTION",
    "OTHER_COLLECTION",
    "Due",
    "Interval",
    "Schedule",
    "Settings",
    "given_watch",
    "mild",
    "patterns",
    "settings",
]

_log = logging.getLogger("tocsin")

DEFAULT_COLLECTION = "default"
OTHER_COLLECTION = "other"
"""Where tensors of no collection go if ``default`` has patterns, so means something else."""

_DEFAULT_INTERVAL = 10
_DEFAULT_OVERHEAD = 0.02

Interval = int | Mapping[Mode, int] | Mapping[str, int]


@dataclass(frozen=True)
class Settings:
    """``capture`` is what holds in the end; it stands in ``watch``, too, if there is one.

    Without a watch file there is none to write: one in the run would hide the deployment's.
    """

    capture: Capture
    watch: Watch | None = None

    @property
    def collections(self) -> Mapping[str, CollectionConfig]:
        """The collections that the configuration names."""
        return self.capture.collections

    @property
    def intervals(self) -> Mapping[Mode, int]:
        """Every how many steps of a mode is saved what has no interval of its own."""
        common = self.capture.save_interval or _DEFAULT_INTERVAL
        own = {mode: config.save_interval for mode, config in self.capture.modes.items()}
        return {mode: own.get(mode) or common for mode in Mode}

    @property
    def include_workers(self) -> Literal["one", "all"]:
        return self.capture.include_workers or "all"

    @property
    def max_overhead(self) -> float:
        """The share of the training's time that capturing may take."""
        return self.capture.max_overhead or _DEFAULT_OVERHEAD

    def collections_of(
        self, name: str, collection: str | tuple[str, ...] | None
    ) -> tuple[str, ...]:
        """The collections a tensor was saved to, and those configured that its name belongs to."""
        given = (collection,) if isinstance(collection, str) else collection or ()
        told = any(built_in(each) for each in given)
        matching = [
            key
            for key, config in self.collections.items()
            if key not in given and _matches(name, key, config, told=told)
        ]
        if given or matching:
            return (*given, *matching)
        taken = DEFAULT_COLLECTION in self.collections and self._has_patterns(DEFAULT_COLLECTION)
        return (OTHER_COLLECTION if taken else DEFAULT_COLLECTION,)

    def asked(self, collections: tuple[str, ...]) -> bool:
        """Whether the configuration asks for tensors of these collections, rules or not.

        ``default`` counts if it has patterns: all tensors that nobody named are in it else.
        """
        return any(
            name in self.collections and (name != DEFAULT_COLLECTION or self._has_patterns(name))
            for name in collections
        )

    def raw(self, collections: tuple[str, ...]) -> bool | None:
        """Whether values are kept; None: the configuration does not say."""
        said = set(self._said("save_raw_tensor", collections))
        return True if True in said else False if False in said else None

    def shape(self, collections: tuple[str, ...]) -> bool:
        """Whether the shape is listed by itself, as ``save_shape`` has it."""
        return True in self._said("save_shape", collections)

    def reductions(self, collections: tuple[str, ...]) -> tuple[str, ...]:
        """The reductions that become tensors, as they stand in names; of losses there are none."""
        if not SCALARS.isdisjoint(collections):
            return ()
        wanted = {
            name for listed in self._said("reductions", collections) for name in reductions(listed)
        }
        return tuple(name for name in REDUCTIONS if name in wanted)

    def _said(self, key: str, collections: tuple[str, ...]) -> Iterator[Any]:
        """What each of the collections says, or the whole capture in its place."""
        for name in collections:
            own = getattr(self.collections.get(name), key, None)
            if (said := getattr(self.capture, key) if own is None else own) is not None:
                yield said

    def _has_patterns(self, name: str) -> bool:
        return bool(patterns(self.collections[name]))


def mild(fault: Fault) -> None:
    """Says that a part of a watch file cannot be used, which has nothing to do with capturing."""
    _log.warning("watch file: %s; what it is about has its default", fault)


def given_watch(watch: Watch | str | Path | None) -> Watch | None:
    """The watch file that a script names. Raises ValueError and OSError if it has an error.

    A rule that is not known here may be one of the deployment's own: that is a warning.
    """
    if watch is None or switched_off():
        return None
    where = "" if isinstance(watch, Watch) else f"{watch}: "
    found = watch if isinstance(watch, Watch) else read_watch(watch)
    for refused in resolve(found)[1]:
        if find_rule(refused.rule_name) is not None:
            raise BadWatch(f"{where}{refused.reason}")
        _log.warning("%s%s", where, refused.reason)
    try:
        settings(found, None)
    except ValueError as error:
        raise BadWatch(f"{where}{error}") from error
    return found


def settings(
    watch: Watch | None, interval: Interval | None, capture: Capture | None = None
) -> Settings:
    """Arguments win over the watch file, and that over the defaults.

    ``capture`` takes the place of all that the watch file says of it, and ``interval`` that of
    the intervals of what has none of its own. Raises ValueError and OSError for a file or a value
    that cannot be used.
    """
    found = capture or (watch.capture if watch else Capture())
    effective = to_capture(plain_capture(_with_interval(found, interval)))  # as a file is checked
    if effective.save_all and "all" not in effective.collections:
        everything = {"all": CollectionConfig()}
        effective = replace(effective, collections={**effective.collections, **everything})
    for config in effective.collections.values():
        for pattern in patterns(config):
            search(pattern, "")
    return Settings(effective, replace(watch, capture=effective) if watch else None)


def _with_interval(capture: Capture, interval: Interval | None) -> Capture:
    """``capture`` with the interval of the arguments, or else the default one."""
    modes = dict(capture.modes)
    common = capture.save_interval or _DEFAULT_INTERVAL
    if isinstance(interval, Mapping):
        given = {_mode(mode): _plain(every) for mode, every in interval.items()}
    elif interval is None:
        given = {}
    else:
        common = _plain(interval)
        given = dict.fromkeys(modes, common)
    if min((common, *given.values())) < 1:
        raise ValueError(f"save_interval is {interval}, but must be at least 1")
    for mode, every in given.items():
        modes[mode] = replace(modes.get(mode, SaveConfig()), save_interval=every)
    return replace(capture, save_interval=common, modes=modes)


def _plain(every: int) -> int:
    """Python's own number: a script may have computed it with numpy."""
    number: int = every.item() if isinstance(every, np.generic) else every
    return number


def _mode(mode: Mode | str) -> Mode:
    if isinstance(mode, str) and mode not in Mode.__members__:
        raise ValueError(f"save_interval: {mode!r} is none of {', '.join(Mode.__members__)}")
    return Mode[mode] if isinstance(mode, str) else Mode(mode)


def _matches(name: str, key: str, config: CollectionConfig, *, told: bool) -> bool:
    """By its patterns; a built-in collection without any also knows its tensors by their names.

    It keeps to those whose collection nobody has ``told``. To ``all`` belongs every tensor.
    """
    if own := patterns(config):
        return matches(own, name)
    return (not told or key == "all") and belongs(name, key)
