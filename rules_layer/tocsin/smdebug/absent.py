"""Names of smdebug that have no counterpart: they say so when they are used, not when imported."""

from __future__ import annotations

from typing import Any, NoReturn


def absent(name: str, instead: str) -> Any:
    """Return a class in place of ``name``. To make one raises NotImplementedError, which says what
    to do ``instead``.
    """

    def refuse(cls: type, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"{name} is not part of tocsin.smdebug: {instead}")

    return type(name, (), {"__new__": refuse, "__doc__": f"Not there: {instead}."})
