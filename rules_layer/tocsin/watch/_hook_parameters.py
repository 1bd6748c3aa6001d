"""Amazon's DebugHookConfig, where every value is a string."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from reprlib import repr as short  # what a file says may be long
from typing import Any

from tocsin.watch._bad import BadWatch
from tocsin.watch._built_in import ALL, DEFAULT, built_in
from tocsin.watch._capture import Config, convert, known_key, patterns, plain_section, section
from tocsin.watch._config import Capture, CollectionConfig

_log = logging.getLogger("tocsin")


def capture_from(
    hook_parameters: Mapping[str, Any] | None,
    collections: Sequence[Mapping[str, Any]] | None = None,
    *,
    save_interval: int = 500,
) -> Capture:
    """HookParameters and CollectionConfigurations as CreateTrainingJob takes them.

    What they leave out is as smdebug documents it: every ``save_interval`` steps (500; its hook
    for XGBoost had 10), one worker, and whole values of collections for which there are no
    ``reductions``, ``save_shape`` or ``save_raw_tensor``. Keys that mean nothing here are passed
    over with a warning. Raises BadWatch for a value that cannot be used, and for a collection
    that is neither built in nor has an ``include_regex``.

    >>> capture_from(
    ...     {"save_interval": "100", "include_workers": "all"},
    ...     [{"CollectionName": "gradients", "CollectionParameters": {"reductions": "mean,l2"}}],
    ... )
    """
    parameters = convert(hook_parameters or {}, dict[str, Any], "HookParameters")
    items = convert(collections or [], list[Any], "CollectionConfigurations")
    regex = parameters.pop("include_regex", None)
    capture = _section(parameters, Capture, "HookParameters")
    configs: dict[str, CollectionConfig] = {}
    for name, config in (_named(at, item) for at, item in enumerate(items)):
        configs[name] = _joined(configs[name], config) if name in configs else config
    for name, config in configs.items():
        if not (built_in(name) or patterns(config)):
            why = "needs include_regex: it is no built-in collection"
            raise BadWatch(f"CollectionConfigurations: {short(name)} {why}")
    if regex:
        more = _section({"include_regex": regex}, CollectionConfig, "HookParameters")
        configs[DEFAULT] = _joined(configs.get(DEFAULT, CollectionConfig()), more)
    if capture.save_all:
        configs.setdefault(ALL, CollectionConfig())
    if not _reduces(capture):
        configs = {name: _whole(config) for name, config in configs.items()}
    return replace(
        capture,
        collections=configs,
        save_interval=capture.save_interval or save_interval,
        include_workers=capture.include_workers or "one",
    )


def _named(at: int, item: Any) -> tuple[str, CollectionConfig]:
    name = item.get("CollectionName") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not name:
        raise BadWatch(f"CollectionConfigurations[{at}] has no CollectionName")
    where = f"CollectionConfigurations[{short(name)}]"
    return name, _section(item.get("CollectionParameters") or {}, CollectionConfig, where)


def _section(content: Any, into: type[Config], where: str) -> Config:
    """As in a watch file, but what nobody knows there is passed over."""
    if isinstance(content, Mapping):
        unknown = [key for key in content if key == "collections" or not known_key(key, into)]
        for key in unknown:
            _log.warning("%s: %s means nothing here", where, short(key))
        content = {key: value for key, value in content.items() if key not in unknown}
    return section(content, into, where)


def _joined(first: CollectionConfig, second: CollectionConfig) -> CollectionConfig:
    """What is said twice counts as it is said last; patterns are added."""
    said = {**plain_section(first), **plain_section(second)}
    both = [*patterns(first), *patterns(second)]
    return section({**said, "include_regex": both}, CollectionConfig, "CollectionConfigurations")


def _reduces(config: Capture | CollectionConfig) -> bool:
    return (config.reductions, config.save_raw_tensor, config.save_shape) != (None, None, None)


def _whole(config: CollectionConfig) -> CollectionConfig:
    return config if _reduces(config) else replace(config, save_raw_tensor=True)
