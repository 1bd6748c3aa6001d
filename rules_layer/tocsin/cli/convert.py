"""``tocsin convert``: Amazon's rule configurations as a watch file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.migrate import convert


def converted(file: str) -> Document:
    """Return the JSON of ``tocsin convert``. Raises CommandError, BadWatch, OSError."""
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        job = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file}: not JSON: {error}") from error
    found = convert(job)
    return {"watch": found.watch, "not_taken_over": found.left, "better": found.better}


def print_watch(document: Document, console: Console) -> None:
    """Print the watch file as YAML."""
    import yaml

    text = yaml.safe_dump(document["watch"], sort_keys=False, allow_unicode=True)
    console.print(text, soft_wrap=True, end="")
