"""Commands that install an extra: the package is on no index.

Imports no other module of Tocsin.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def wheel(extra: str) -> str:
    """The file of this version's wheel, with an extra, as ``pip install`` and requirements take it.

    >>> wheel("aws")
    './tocsin-0.1.0-py3-none-any.whl[aws]'
    """
    try:
        number = version("tocsin")
    except PackageNotFoundError:  # a copy of the sources, as in Lambda
        number = "VERSION"
    return f"./tocsin-{number}-py3-none-any.whl[{extra}]"


def install(extra: str) -> str:
    """The command that installs an extra, in a checkout and with the wheel."""
    return f"pip install '.[{extra}]' in a checkout, else '{wheel(extra)}'"
