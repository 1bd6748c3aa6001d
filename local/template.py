"""The template with its assets, kept by a hash of all that it is made of."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tocsin.watch import BadWatch, read_watch

from local.paths import CACHE, ROOT
from local.reaper import Reaper
from local.synth import Assembly, read_assembly, synthesize

_SOURCES = ("app.py", "cdk.json", "infra", "functions", "rules_layer", "local/requirements.txt")
_KEPT = 24 * 3600.0  # seconds since the last use


def template(reaper: Reaper, context: Mapping[str, Any], cache: Path | None = None) -> Assembly:
    """The assembly for these options: synthesised, unless nothing has changed since last time."""
    cache = cache or CACHE / "templates"
    folder = cache / _fingerprint(context)
    if not folder.is_dir():
        new = reaper.folder("assembly")
        synthesize(reaper, new, context)
        _keep(new, folder)
    os.utime(folder)
    _drop_old(cache)
    return read_assembly(folder)


def _fingerprint(context: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps([sys.version, context], sort_keys=True).encode())
    settings = json.loads((ROOT / "cdk.json").read_text()).get("context", {}) | dict(context)
    for path in (*_sources(), *_watch_files(settings.get("watchFile"))):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path} {path.stat().st_mode:o} {content}\n".encode())
    return digest.hexdigest()[:24]


def _sources() -> Iterator[Path]:
    for name in _SOURCES:
        yield from _files(ROOT / name)


def _watch_files(name: str | None) -> Iterator[Path]:
    """The watch file, where there is one, and the rules of its own that it names."""
    if not name or not (file := ROOT / name).is_file():
        return
    yield file
    with suppress(BadWatch):  # the app says why
        if (rules := read_watch(file).custom_rules) is not None:
            yield from _files(file.parent / rules)


def _files(place: Path) -> Iterator[Path]:
    found = sorted(place.rglob("*")) if place.is_dir() else [place]
    yield from (p for p in found if p.is_file() and "__pycache__" not in p.parts)


def _keep(new: Path, folder: Path) -> None:
    """Copies it under its final name at once, so that no other process sees a part of it."""
    draft = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.copytree(new, draft)
    try:
        draft.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(draft)


def _drop_old(cache: Path) -> None:
    for folder in cache.iterdir():
        if time.time() - folder.stat().st_mtime > _KEPT:
            shutil.rmtree(folder, ignore_errors=True)
