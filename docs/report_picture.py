"""Makes the picture of the report page: ``python -m docs.report_picture``. Needs a Chromium.

The picture is of a real training, one whose learning rate is too high.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from tocsin.report import html_of, report_on
from tocsin.tensors import open_storage

HERE = Path(__file__).parent
TRAINING = HERE.parent / "examples" / "digits_numpy.py"
SIZE = "1200,1560"


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium on this machine: apt-get install chromium")
    with TemporaryDirectory() as folder:
        run, page = Path(folder) / "digits-7", Path(folder) / "report.html"
        train = [sys.executable, str(TRAINING), "--out", str(run), "--fault", "diverging"]
        subprocess.run([*train, "--save-interval", "2", "--steps", "300"], check=True)  # noqa: S603
        made = report_on(open_storage(str(run)))
        shown = msgspec.structs.replace(made.run, url="runs/digits-7")
        page.write_text(html_of(msgspec.structs.replace(made, run=shown)), "utf-8")
        picture = HERE / "report.png"
        how = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}"]
        taken = [f"--screenshot={picture}", "--virtual-time-budget=10000", page.as_uri()]
        subprocess.run([chromium, *how, *taken], check=True, capture_output=True)  # noqa: S603
        print(picture)


if __name__ == "__main__":
    main()
