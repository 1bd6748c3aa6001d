"""The settings of a capture: the arguments of a hook and its watch file, put together."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tocsin.model import Mode
from tocsin.rules import find_rule, load_packages
from tocsin.tensors import REDUCTIONS, search
from tocsin.watch import (
    BadWatch,
    Capture,
    CollectionConfig,
    Fault,
    PatternMatcher,
    SaveConfig,
    Watch,
    belongs,
    built_in,
    patterns,
    plain_capture,
    quantiles,
    read_watch,
    reductions,
    resolve,
    to_capture,
)

from tocsin_hooks.container import switched_off
from tocsin_hooks.guard import Guard
from tocsin_hooks.plan import SCALARS

_log = logging.getLogger("tocsin")

DEFAULT_COLLECTION = "default"
OTHER_COLLECTION = "other"
"""The collection of tensors without one, if ``default`` has patterns, so means something else."""

DEFAULT_INTERVAL = 10
_DEFAULT_OVERHEAD = 0.02
_MOST_FAILURES = 3  # of a pattern

Interval = int | Mapping[Mode, int] | Mapping[str, int]


def _report(owner: str, why: str) -> None:
    _log.warning("ignoring a pattern of %s: %s", owner, why)


def _matcher() -> PatternMatcher:
    return PatternMatcher(_MOST_FAILURES, _report)


@dataclass(frozen=True)
class CaptureSettings:
    """``capture`` is what holds in the end; it stands in ``watch``, too, if there is one.

    Without a watch file there is none to write: one in the run would hide the deployment's.
    """

    capture: Capture
    watch: Watch | None = None
    matcher: PatternMatcher = field(default_factory=_matcher, compare=False)
    """For all patterns of the watch file. A busy machine makes any pattern slow once."""

    @property
    def collections(self) -> Mapping[str, CollectionConfig]:
        """The collections that the configuration names."""
        return self.capture.collections

    @property
    def intervals(self) -> Mapping[Mode, int]:
        """Return the save interval of a mode, for collections without their own."""
        common = self.capture.save_interval or DEFAULT_INTERVAL
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
        """Return the collections a tensor was saved to, and those configured that its name belongs
        to."""
        given = (collection,) if isinstance(collection, str) else collection or ()
        is_named = any(built_in(each) for each in given)
        matching = [
            key
            for key, config in self.collections.items()
            if key not in given and self._matches(name, key, config, is_named=is_named)
        ]
        if given or matching:
            return (*given, *matching)
        taken = DEFAULT_COLLECTION in self.collections and self._has_patterns(DEFAULT_COLLECTION)
        return (OTHER_COLLECTION if taken else DEFAULT_COLLECTION,)

    def asked(self, collections: tuple[str, ...]) -> bool:
        """Return whether the configuration asks for tensors of these collections, rules or not.

        ``default`` counts if it has patterns: all tensors that nobody named are in it else.
        """
        return any(
            name in self.collections and (name != DEFAULT_COLLECTION or self._has_patterns(name))
            for name in collections
        )

    def raw(self, collections: tuple[str, ...]) -> bool | None:
        """Return whether values are kept; None: the configuration does not say."""
        said = set(self._said("save_raw_tensor", collections))
        return True if True in said else False if False in said else None

    def shape(self, collections: tuple[str, ...]) -> bool:
        """Return whether the shape is listed by itself, as ``save_shape`` has it."""
        return True in self._said("save_shape", collections)

    def reductions(self, collections: tuple[str, ...]) -> tuple[str, ...]:
        """Return the reductions that become tensors, as they stand in names; of losses there are
        none."""
        if not SCALARS.isdisjoint(collections):
            return ()
        wanted = {
            name for listed in self._said("reductions", collections) for name in reductions(listed)
        }
        return tuple(name for name in REDUCTIONS if name in wanted)

    def quantiles(self, collections: tuple[str, ...]) -> tuple[float, ...]:
        """Return the quantiles in a tensor's summary, from all its collections."""
        configs = filter(None, map(self.collections.get, collections))
        return quantiles(tuple(q for each in configs for q in quantiles(each.quantiles or ())))

    def _said(self, key: str, collections: tuple[str, ...]) -> Iterator[Any]:
        """Return the setting of each collection, or else of the whole capture."""
        for name in collections:
            own = getattr(self.collections.get(name), key, None)
            if (said := getattr(self.capture, key) if own is None else own) is not None:
                yield said

    def _matches(self, name: str, key: str, config: CollectionConfig, *, is_named: bool) -> bool:
        """By its patterns; a built-in collection without any also knows its tensors by their names.

        ``is_named``: the script names a built-in collection, and then no other has the tensor,
        ``all`` excepted.
        """
        if own := patterns(config):
            return self.matcher.matches(own, name, f"collection {key}")
        return (not is_named or key == "all") and belongs(name, key)

    def _has_patterns(self, name: str) -> bool:
        return bool(patterns(self.collections[name]))


def mild(fault: Fault) -> None:
    """Says that a part of a watch file cannot be used, which has nothing to do with capturing."""
    _log.warning("watch file: %s; using the default instead", fault)


def given_watch(watch: Watch | str | Path | None) -> Watch | None:
    """Return the watch file that a script names. Raises ValueError and OSError if it has an error.

    A rule that is not known here may be one of the deployment's own: that is a warning.
    """
    if watch is None or switched_off():
        return None
    where = "" if isinstance(watch, Watch) else f"{watch}: "
    found = watch if isinstance(watch, Watch) else read_watch(watch)
    if any(find_rule(each.rule_name) is None for each in resolve(found)[1]):
        with Guard(_not_loaded, "the rules of installed packages are not known to the hook"):
            load_packages()
    for refused in resolve(found)[1]:
        if find_rule(refused.rule_name) is not None:
            raise BadWatch(f"{where}{refused.reason}")
        _log.warning("%s%s", where, refused.reason)
    try:
        settings(found, None)
    except ValueError as error:
        raise BadWatch(f"{where}{error}") from error
    return found


def _not_loaded(what: str, error: Exception) -> None:
    _log.warning("%s: %s", what, error)


def settings(
    watch: Watch | None,
    interval: Interval | None,
    capture: Capture | None = None,
    usual: int = DEFAULT_INTERVAL,
) -> CaptureSettings:
    """Arguments win over the watch file, and that over the defaults.

    ``capture`` takes the place of all that the watch file says of it, and ``interval`` that of
    the intervals of what has none of its own; ``usual`` counts where nobody says one. Raises
    ValueError and OSError for a file or a value that cannot be used.
    """
    found = capture or (watch.capture if watch else Capture())
    effective = to_capture(
        plain_capture(_with_interval(found, interval, usual))
    )  # as a file is checked
    if effective.save_all and "all" not in effective.collections:
        everything = {"all": CollectionConfig()}
        effective = replace(effective, collections={**effective.collections, **everything})
    for config in effective.collections.values():
        for pattern in patterns(config):
            search(pattern, "")
    return CaptureSettings(effective, replace(watch, capture=effective) if watch else None)


def _with_interval(capture: Capture, interval: Interval | None, usual: int) -> Capture:
    """``capture`` with the interval of the arguments, or else the default one."""
    modes = dict(capture.modes)
    common = capture.save_interval or usual
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
        raise ValueError(
            f"save_interval: {mode!r} is not a mode: use {', '.join(Mode.__members__)}"
        )
    return Mode[mode] if isinstance(mode, str) else Mode(mode)
