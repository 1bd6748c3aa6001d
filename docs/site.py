"""Builds the documentation site; ``make docs-site`` runs it.

The site has the folders of the repository, so that every link in a page leads to the same file.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from local.interpreter import interpreter
from local.paths import ROOT

CONFIGURATION = ROOT / "docs" / "zensical.toml"
REQUIREMENTS = ROOT / "docs" / "site-requirements.txt"
ENVIRONMENT = ROOT / ".venv-docs"
SITE = ROOT / ".cache" / "docs-site"

_PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md")
_FILES = (
    *("docs/**/*.svg", "docs/**/*.png"),
    *("examples/**/*.py", "examples/**/*.yaml", "examples/**/*.svg", "examples/**/*.txt"),
    "action/*",
)


class BadSite(Exception):
    """The pages do not make a site; the message has a line for each problem."""


def pages(root: Path = ROOT) -> list[Path]:
    """The pages of the site, as paths in the repository."""
    return [path.relative_to(root) for pattern in _PAGES for path in sorted(root.glob(pattern))]


def build(folder: Path = SITE, root: Path = ROOT) -> Path:
    """Builds the site in ``folder``, which is emptied before, and returns its first page.

    Raises BadSite for a link or an anchor that leads nowhere.
    """
    shutil.rmtree(folder, ignore_errors=True)
    files = [path.relative_to(root) for pattern in _FILES for path in root.glob(pattern)]
    for path in (*pages(root), *files):
        copy = folder / "pages" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, copy)
    shutil.copyfile(CONFIGURATION, folder / CONFIGURATION.name)
    python = interpreter(ENVIRONMENT, REQUIREMENTS)
    done = subprocess.run(
        [python, "-m", "zensical", "build", "--strict", "--config-file", CONFIGURATION.name],
        cwd=folder,
        env={"NO_COLOR": "1", "PATH": str(python.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        problems = (done.stdout + done.stderr).partition("Traceback")[0].strip()
        raise BadSite(problems or "zensical failed without a message")
    return folder / "site" / "index.html"


if __name__ == "__main__":
    print(build())
