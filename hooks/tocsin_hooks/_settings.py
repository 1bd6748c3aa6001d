"""What to capture and when: the arguments of a hook and its watch file, put together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tocsin.model import Mode
from tocsin.tensors import search
from tocsin.watch import CollectionConfig, Watch, read_watch

DEFAULT_COLLECTION = "default"
_DEFAULT_INTERVAL = 10

Interval = int | Mapping[Mode, int]


@dataclass(frozen=True)
class Settings:
    """``intervals`` in steps of each mode; ``seconds`` is None where only steps count."""

    intervals: Mapping[Mode, int]
    seconds: float | None
    collections: Mapping[str, CollectionConfig]
    watch: Watch | None

    def collections_of(self, name: str, collection: str | None) -> tuple[str, ...]:
        """The collection a tensor was saved to, and those whose patterns match its name."""
        matching = [
            key
            for key, config in self.collections.items()
            if key != collection and any(search(pattern, name) for pattern in patterns(config))
        ]
        named = [collection] if collection else [] if matching else [DEFAULT_COLLECTION]
        return (*named, *matching)

    def raw(self, collections: tuple[str, ...]) -> bool:
        """Whether the configuration asks for the values of a tensor of these collections."""
        found = (self.collections.get(name) for name in collections)
        return any(config is not None and config.save_raw_tensor for config in found)


def settings(watch: Watch | str | Path | None, interval: Interval | None) -> Settings:
    """Arguments win over the watch file, and that over the defaults.

    Raises ValueError and OSError for a file or a pattern that cannot be used.
    """
    if isinstance(watch, str | Path):
        watch = read_watch(watch)
    capture = watch.capture if watch else None
    common = (capture and capture.save_interval) or _DEFAULT_INTERVAL
    given = interval if isinstance(interval, Mapping) else {}
    if isinstance(interval, int):
        common = interval
    intervals = {mode: given.get(mode, common) for mode in Mode}
    if min(intervals.values()) < 1:
        raise ValueError(f"save_interval is {interval}, but must be at least 1")
    for config in capture.collections.values() if capture else ():
        for pattern in patterns(config):
            search(pattern, "")
    if watch and capture:
        effective = dataclasses.replace(capture, save_interval=intervals[Mode.TRAIN])
        watch = dataclasses.replace(watch, capture=effective)
    return Settings(
        intervals,
        capture.save_interval_seconds if capture else None,
        capture.collections if capture else {},
        watch,
    )


def patterns(config: CollectionConfig) -> tuple[str, ...]:
    """The patterns of a collection; a single one may stand alone."""
    found = config.include_regex
    return (found,) if isinstance(found, str) else found


class Schedule:
    """Which steps are saved: every N of a mode, or after some seconds, whichever comes first."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._own = {
            name: config.save_interval
            for name, config in settings.collections.items()
            if config.save_interval
        }
        self._saved_at: dict[Mode, float] = {}

    def due(self, mode: Mode, mode_step: int, now: float) -> Due | None:
        """What of this step is saved, if anything; ``now`` in seconds of a steady clock."""
        seconds, last = self._settings.seconds, self._saved_at.setdefault(mode, now)
        late = seconds is not None and now - last >= seconds
        common = late or mode_step % self._settings.intervals[mode] == 0
        own = {name: late or mode_step % every == 0 for name, every in self._own.items()}
        return Due(common, own) if common or any(own.values()) else None

    def saved(self, mode: Mode, now: float) -> None:
        self._saved_at[mode] = now


@dataclass(frozen=True)
class Due:
    """What of a step is saved: ``own`` by collection, ``common`` the collections not in it."""

    common: bool
    own: Mapping[str, bool]

    def wants(self, collections: tuple[str, ...]) -> bool:
        return any(self.own.get(name, self.common) for name in collections)
