"""Runs a notebook of the gallery and writes its outputs into it.

    python -m examples.notebooks attention autoencoder_latent

In an environment of its own (`.venv-notebooks`), made at the first run. Outputs beyond 150 KB, such
as a whole report, and what cells print are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from local.interpreter import interpreter
from local.paths import ROOT

HERE = Path(__file__).parent
NOTEBOOKS = ("attention", "autoencoder_latent")
_LONGEST = 150_000  # characters
_RUN = """
import sys, nbclient, nbformat
found = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(found, timeout=1800).execute()
nbformat.write(found, sys.argv[2])
"""


def with_outputs(notebook: dict[str, Any], ran: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs that its cells had when they ran."""
    for cell, done in zip(notebook["cells"], ran["cells"], strict=True):
        if cell["cell_type"] == "code":
            cell["execution_count"] = done["execution_count"]
            cell["outputs"] = [
                each
                for each in done["outputs"]
                if each["output_type"] != "stream" and len(json.dumps(each)) <= _LONGEST
            ]
    return notebook


def run(path: Path) -> None:
    """Run the notebook in an empty folder, and write its outputs."""
    python = interpreter(ROOT / ".venv-notebooks", HERE / "notebooks-requirements.txt")
    paths = os.pathsep.join(str(ROOT / room) for room in ("rules_layer", "hooks", "."))
    given = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        ran = Path(folder) / "ran.ipynb"
        subprocess.run([python, "-c", _RUN, path, ran], cwd=folder, env=given, check=True)
        made = with_outputs(json.loads(path.read_text()), json.loads(ran.read_text()))
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=NOTEBOOKS, default=NOTEBOOKS)
    for name in parser.parse_args().names:
        run(HERE / name / "notebook.ipynb")


if __name__ == "__main__":
    main()
