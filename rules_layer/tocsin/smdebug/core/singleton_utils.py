"""The hook of this process, as ``get_hook`` knows it."""

from __future__ import annotations

from typing import Any

from tocsin.smdebug.core.hook import BaseHook

__all__ = ["del_hook", "get_hook", "set_hook"]

_latest: list[BaseHook] = []


def get_hook(
    json_config_path: str | None = None,
    hook_class: type[BaseHook] | None = None,
    create_if_not_exists: bool = False,
) -> Any:
    """Return the latest hook of the class, or one of SageMaker's configuration, or None.

    Raises FileNotFoundError where one is to be created and there is no configuration.
    """
    known = next((each for each in _latest if isinstance(each, hook_class or BaseHook)), None)
    if known is None and create_if_not_exists and hook_class is not None:
        return hook_class.create_from_json_file(json_config_path)
    return known


def set_hook(custom_hook: BaseHook) -> None:
    """Make a hook the one of this process. Raises TypeError."""
    if not isinstance(custom_hook, BaseHook):
        raise TypeError(f"{custom_hook!r:.200} is not a hook")
    _latest[:] = [custom_hook]


def del_hook() -> None:
    """Forget the hook of this process."""
    _latest.clear()
