"""Commands that install an extra, and addresses of pages.

``PUBLISHED`` is the switch for all messages and pages.

Imports no other module of Tocsin.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

PUBLISHED = False
"""True once the package is on the package index, and the pages are at ``SITE``. ``make docs`` then
changes the pages, too.
"""

SITE = "https://example.com/tocsin"
"""The address of the documentation, as ``make docs-site`` makes it."""


def wheel(extra: str) -> str:
    """Return the line of requirements for this version with an extra: its wheel, or its name on the
    index.

    >>> wheel("aws")
    './tocsin-0.1.0-py3-none-any.whl[aws]'
    """
    try:
        number = version("tocsin")
    except PackageNotFoundError:  # a copy of the sources, as in Lambda
        number = "VERSION"
    if PUBLISHED:
        return f"tocsin[{extra}]=={number}"
    return f"./tocsin-{number}-py3-none-any.whl[{extra}]"


def install(extra: str) -> str:
    """Return the command that installs an extra: from the index, or in a checkout and with the
    wheel."""
    if PUBLISHED:
        return f"pip install 'tocsin[{extra}]'"
    return f"pip install '.[{extra}]' in a checkout, else '{wheel(extra)}'"


def page(path: str) -> str:
    """Return the address of a page, ``docs/rules/AllZero``; empty before the site is published."""
    return f"{SITE}/{path}.html" if PUBLISHED else ""
