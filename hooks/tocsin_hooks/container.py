"""SageMaker's container: what it says of capturing, and the switches that turn it off."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from tocsin.tensors import Storage
from tocsin.watch import BadWatch, Capture, capture_from

Out = str | Path | Storage

_log = logging.getLogger("tocsin")

CONFIG = "/opt/ml/input/config/debughookconfig.json"
_OUT = "/opt/ml/output/tensors"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Container:
    """``path``: the folder that the platform uploads; ``capture``: what the job asks for."""

    path: str
    capture: Capture


def container(save_interval: int = 500, path: str | Path | None = None) -> Container | None:
    """Return the content of ``debughookconfig.json``; None outside a container that has it.

    The file lies at ``path``, ``$SMDEBUG_CONFIG_FILE_PATH`` or where SageMaker puts it.
    ``save_interval`` is that of a file which names none. Raises BadWatch with the file's name,
    OSError.
    """
    file = Path(path or os.environ.get("SMDEBUG_CONFIG_FILE_PATH") or CONFIG)
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    try:
        found = _decoded(data)
        capture = capture_from(
            found.hook_parameters, found.collection_configurations, save_interval=save_interval
        )
    except ValueError as error:
        raise BadWatch(f"{file}: {error}") from error
    return Container(found.local_path or _OUT, capture)


def destination(out: Out | None) -> tuple[Out, Capture | None]:
    """Return where a hook writes, and the container's configuration, if there is one.

    Raises BadWatch, OSError for a container's file that is wrong and needed, ValueError where
    nobody says where to write.
    """
    try:
        found = container()
    except (ValueError, OSError) as error:
        if out is None:
            raise
        _log.error("capturing without the container's configuration: %s", error)
        found = None
    run = out or (found.path if found else None) or os.environ.get("TOCSIN_RUN")
    if run is None:
        raise ValueError("no run to write to: give `out`, or set TOCSIN_RUN")
    if isinstance(run, Path) and run.parts[:1] == ("s3:",):
        raise ValueError(f"{run} is a Path, which cannot name S3: pass a string")
    return run, found.capture if found else None


def switched_off() -> bool:
    """Return whether ``TOCSIN`` or ``USE_SMDEBUG`` in the environment is 0 or false."""
    values = (os.environ.get(name, "") for name in ("TOCSIN", "USE_SMDEBUG"))
    return any(value.strip().lower() in ("0", "false") for value in values)


class _ContainerFile(msgspec.Struct, frozen=True, rename="pascal"):
    """The part of the file that is read; the rest is for the platform."""

    local_path: str | None = None
    hook_parameters: dict[str, Any] | None = None
    collection_configurations: list[Any] | None = None


_decoder = msgspec.json.Decoder(_ContainerFile)


def _decoded(data: bytes) -> _ContainerFile:
    if len(data) > _MOST_BYTES:
        raise BadWatch(f"larger than {_MOST_BYTES} bytes")
    try:
        return _decoder.decode(data)
    except RecursionError as error:
        raise BadWatch("nested too deeply") from error
