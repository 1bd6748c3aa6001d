"""What a report costs: its size, the time and memory to make it, and how fast a browser draws it.

    python -m benchmarks.report [--tensors 1000] [--saves 1000]

The run has a loss, and gradients and weights with summaries only; it is written first. The report
is made in a process of its own, whose memory is measured. The browser's part needs a Chromium
and ``.venv-browser`` (``make test-browser``).
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tocsin.evaluation import check
from tocsin.model import Mode
from tocsin.report import History, Trace, html_of, page_of
from tocsin.tensors import END_MARKER, Captured, LocalStorage, RunWriter, open_storage, summarize
from tocsin.watch import to_watch

HERE = Path(__file__).parent
BROWSER = HERE.parent / ".venv-browser" / "bin" / "python"
RULES = ["ExplodingTensor", "VanishingGradient", "LossDiverging", "WeightUpdateRatio"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--saves", type=int, default=1000)
    parser.add_argument("--of", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.of:
        print(json.dumps(_made(Path(given.of))))
        return
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        _write(run, given.tensors, given.saves)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.report", "--of", run],
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        if BROWSER.exists() and (chromium := shutil.which("chromium")):
            page = run.with_suffix(".html")
            command = [BROWSER, HERE / "_report_browser.py", chromium, page]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            found |= json.loads(answer.stdout)
    print(f"{given.tensors} tensors, {given.saves} saves")
    for name, value in found.items():
        print(f"{name:48} {value}")


def _write(path: Path, tensors: int, saves: int) -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal((64, 64)).astype(np.float32)
    storage = LocalStorage(path)
    writer = RunWriter(storage, run_id="r")
    names = [f"{kind}layer{at}.weight" for at in range(tensors // 2) for kind in ("gradient/", "")]
    summaries = [summarize(values[at], values[at] * np.float32(0.999)) for at in range(64)]
    for step in range(saves):
        loss = np.float32(np.exp(-step / saves))
        captured = [Captured("loss", loss, summary=summarize(loss, fingerprint=False))]
        for at, name in enumerate(names):
            summary = summaries[(step + at) % 64]
            captured.append(Captured(name, None, shape=(64,), dtype="float32", summary=summary))
        writer.write(step, Mode.TRAIN, step, captured)
    storage.write(END_MARKER, b"")


def _made(run: Path) -> dict[str, object]:
    storage, trace = open_storage(str(run)), Trace()
    began = time.process_time()
    checkpoint, _ = check(storage, to_watch({"rules": RULES}), on_verdict=trace.add)
    evaluated = time.process_time()
    history = History(storage)
    history.refresh()
    entries = sum(len(saves.steps) * len(saves.tensors) for saves in history.saves)
    read = time.process_time()
    page = page_of(checkpoint, trace, history, made=datetime.now(UTC))
    html = html_of(page)
    run.with_suffix(".html").write_text(html, "utf-8")
    done = time.process_time()
    return {
        "evaluate, s of CPU": round(evaluated - began, 1),
        "read index files, s of CPU": round(read - evaluated, 1),
        "summaries read a second of CPU": round(entries / (read - evaluated)),
        "thin, encode and write, s of CPU": round(done - read, 2),
        "most memory of the process, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        // 1024,
        "page, MB": round(len(html.encode()) / 1e6, 2),
    }


if __name__ == "__main__":
    main()
