"""``python -m local.release v0.1.0``: may this tag be released?

The tag must name the version of ``pyproject.toml``, and the changelog must have a section for it
with a date. Prints that section.
"""

from __future__ import annotations

import re
import sys

import tomllib

from local.error import LocalError
from local.paths import ROOT

_HEADING = re.compile(r"^## \[(?P<version>[^]]+)] – (?P<date>.+)$", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def notes(tag: str, project: str, changelog: str) -> str:
    """Return what the changelog says of the release. Raises LocalError.

    project, changelog: the texts of ``pyproject.toml`` and ``CHANGELOG.md``.
    """
    version = tomllib.loads(project)["project"]["version"]
    if tag != f"v{version}":
        raise LocalError(f"the tag is {tag}, but pyproject.toml has version {version}")
    found = next(
        (each for each in _HEADING.finditer(changelog) if each["version"] == version), None
    )
    if found is None:
        raise LocalError(f"CHANGELOG.md has no section [{version}]: write one")
    if not _DATE.fullmatch(found["date"]):
        raise LocalError(
            f"CHANGELOG.md says {found['date']!r} of {version}: write its date, such as 2026-01-31"
        )
    following = _HEADING.search(changelog, found.end())
    return changelog[found.end() : following.start() if following else None].strip()


def main() -> None:
    try:
        texts = ((ROOT / name).read_text() for name in ("pyproject.toml", "CHANGELOG.md"))
        sys.stdout.write(f"{notes(sys.argv[1], *texts)}\n")
    except LocalError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
