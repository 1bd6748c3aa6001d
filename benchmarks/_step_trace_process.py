"""A training whose steps are recorded now and then: prints what a step takes, as JSON."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

import msgspec
import torch
from tocsin.model import Mode
from tocsin.tensors import TRACE, TRACE_ANSWER, LocalStorage, TraceRequest, decode_trace_answer
from tocsin_hooks import recorder
from torch import nn

_STEPS = 20  # of a recording
_ROUNDS = 5


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Many small operators, and few large ones: what is recorded of an operator costs the same."""
    small = [layer for _ in range(20) for layer in (nn.Linear(32, 32), nn.ReLU())]
    large = [layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return {
        "20 layers of 32": (nn.Sequential(*small), torch.randn(16, 32)),
        "4 layers of 1,024": (nn.Sequential(*large), torch.randn(64, 1024)),
    }


def measured(model: nn.Module, batch: torch.Tensor) -> dict[str, float]:
    """Medians of CPU time in seconds: of a step without and with, and of what begins and ends it;
    and of the bytes of a trace.
    """
    optimizer = torch.optim.SGD(model.parameters(), 1e-6, momentum=0.9)
    found: dict[str, list[float]] = {"without": [], "with": [], "around": [], "bytes": []}
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(Path(folder))
        trace = recorder.StepRecorder(storage, "worker_0", 0.0)
        for _ in range(_ROUNDS):
            for name in ("without", "with"):
                around = 0.0
                if name == "with":
                    request = TraceRequest(uuid.uuid4().hex, datetime.now(timezone.utc), _STEPS)
                    storage.write(TRACE, msgspec.json.encode(request))
                    trace.look()
                for step in range(_STEPS + 1):
                    begun = time.process_time()
                    trace.step_begins(Mode.TRAIN)
                    around += time.process_time() - begun
                    begun = time.process_time()
                    optimizer.zero_grad()
                    model(batch).sum().backward()
                    optimizer.step()
                    if step:  # the first warms up
                        found[name].append(time.process_time() - begun)
                begun = time.process_time()
                trace.step_begins(Mode.TRAIN)
                if name == "with":
                    found["around"].append(around + time.process_time() - begun)
                    trace.wait(60.0)
                    answer = decode_trace_answer(storage.read(TRACE_ANSWER))
                    found["bytes"].append(answer.bytes)
    return {name: median(each) for name, each in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    recorder._APART, recorder._EVERY = 0.0, 1
    known = {name: measured(*parts) for name, parts in models().items()}
    print(json.dumps({"torch": torch.__version__, "steps": _STEPS, "models": known}))
