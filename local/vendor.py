"""Fetches the charting library of the report again, by npm: ``python -m local.vendor``.

Version and checksums are in ``vendored.json`` beside the copies. A new version needs both changed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from local.paths import ROOT

TEMPLATE = ROOT / "rules_layer" / "tocsin" / "report" / "template"


def main() -> None:
    pinned = json.loads((TEMPLATE / "vendored.json").read_text("utf-8"))
    what = f"{pinned['package']}@{pinned['version']}"
    with TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", what], cwd=folder, check=True)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            for name, digest in pinned["sha256"].items():
                _take(_content(archive, f"package/dist/{name}"), name, digest)
            (TEMPLATE / "uPlot.LICENSE").write_bytes(_content(archive, "package/LICENSE"))


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    if member is None:
        sys.exit(f"{name} is not in the package")
    return member.read()


def _take(content: bytes, name: str, digest: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        sys.exit(f"{name} has SHA-256 {found}, not {digest} as vendored.json says: nothing written")
    (TEMPLATE / name).write_bytes(content)


if __name__ == "__main__":
    main()
