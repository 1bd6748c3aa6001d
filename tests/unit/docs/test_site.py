"""The documentation site: built without a warning, and all of it can be found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomllib

from docs.site import CONFIGURATION, build, pages


def listed(nav: Any) -> Iterator[str]:
    """The paths in a navigation."""
    if isinstance(nav, str):
        yield nav
    for item in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from listed(item)


def test_every_page_is_in_the_navigation() -> None:
    """Those of single rules are in their table."""
    there = {str(path) for path in pages()}
    named = set(listed(tomllib.loads(CONFIGURATION.read_text())["project"]["nav"]))
    assert named - there == set()
    assert {path for path in there - named if not path.startswith("docs/rules/")} == set()


def test_the_site_is_built_without_a_warning_and_asks_nobody_else(tmp_path: Path) -> None:
    first = build(tmp_path / "site")
    for page in pages():
        made = first.parent / page.with_suffix(".html")
        made = made.with_name("index.html") if page.name == "README.md" else made
        text = made.read_text()
        assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"https?:", text), made
        assert "```" not in re.sub(r"<code.*?</code>", "", text, flags=re.DOTALL), made
