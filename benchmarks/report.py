"""Measure a report: its size, the time and memory to make it, and how fast a browser draws it.

    python -m benchmarks.report [--tensors 1000] [--saves 1000]

The run has a loss, and gradients and weights with summaries only; it is written first. The report
is made in processes of their own, whose memory is measured: as by ``tocsin report``, and as the
function ``report`` makes it of a checkpoint and a trace, with the files on a disk instead of in S3.
The browser's part needs a Chromium and ``.venv-browser`` (``make test-browser``).
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tocsin.evaluation import (
    EvaluationReport,
    Hint,
    MemoryTraces,
    check,
    decode_checkpoint,
    decode_trace,
    encode_checkpoint,
    encode_trace,
    memory_ports,
    reconcile,
)
from tocsin.model import Mode
from tocsin.report import History, Trace, html_of, page_of, stored_page
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
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.of:
        print(json.dumps(_PARTS[given.part](Path(given.of))))
        return
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        _write(run, given.tensors, given.saves)
        found: dict[str, object] = {}
        for part in _PARTS:
            command = [sys.executable, "-m", "benchmarks.report", "--of", run, "--part", part]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found |= json.loads(done.stdout)
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


def _evaluated(run: Path) -> dict[str, object]:
    """Keeps the checkpoint and the trace beside the run, as ``evaluate`` does."""
    storage = open_storage(str(run))
    traces = MemoryTraces()
    ports = replace(memory_ports(storage, time.time), traces=traces)
    watch = to_watch({"rules": RULES})
    reconcile(Hint(storage.url), ports, EvaluationReport(), deadline=math.inf, watch=watch)
    checkpoint = encode_checkpoint(ports.checkpoints.load(storage.url).checkpoint)
    trace = encode_trace(traces.load(storage.url))
    run.with_suffix(".checkpoint").write_bytes(checkpoint)
    run.with_suffix(".trace").write_bytes(trace)
    return {"trace, kB": round(len(trace) / 1e3), "checkpoint, kB": round(len(checkpoint) / 1e3)}


def _stored(run: Path) -> dict[str, object]:
    """The function ``report``, with the trace that ``_evaluated`` has kept."""
    storage, traces = open_storage(str(run)), MemoryTraces()
    began = time.process_time()
    checkpoint = decode_checkpoint(run.with_suffix(".checkpoint").read_bytes())
    traces.save(checkpoint.run, decode_trace(run.with_suffix(".trace").read_bytes()))
    page = stored_page(checkpoint, traces, storage, datetime.now(UTC))
    html = html_of(page)
    return {
        "function report, files left out": page.quality.thinned or "none",
        "function report, s of CPU": round(time.process_time() - began, 1),
        "function report, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "function report, page, MB": round(len(html.encode()) / 1e6, 2),
    }


_PARTS = {"terminal": _made, "evaluate": _evaluated, "function": _stored}


if __name__ == "__main__":
    main()
