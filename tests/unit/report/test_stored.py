"""The page of a run that a deployment evaluates, from its checkpoint and trace."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tocsin.evaluation import Hint, MemoryTraces, memory_ports, reconcile
from tocsin.evaluation.unit_of_work import EvaluationReport
from tocsin.model import Mode
from tocsin.report import Page, report_on, stored, stored_page
from tocsin.tensors import END_MARKER, Captured, LocalStorage, RunWriter, summarize
from tocsin.watch import to_watch

STEPS, SPIKE = 300, 151
WATCH = to_watch({"rules": ["ExplodingTensor", "VanishingGradient", "LossSpike"]})
NOW = 2e9


@pytest.fixture
def run(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path)
    writer = RunWriter(storage, run_id="r")
    for step in range(STEPS):
        loss = np.float32(50.0 if step == SPIKE else math.exp(-step / STEPS))
        gradient = np.full(4, 1e-9 if step > 200 else 0.1, np.float32)
        captured = [
            Captured("loss", loss, summary=summarize(loss), role="loss"),
            Captured("gradient/w", gradient, summary=summarize(gradient), role="gradient"),
        ]
        writer.write(step, Mode.TRAIN, step, captured)
    storage.write(END_MARKER, b"")
    return storage


def stored_of(run: LocalStorage, *, with_trace: bool = True) -> Page:
    traces = MemoryTraces()
    ports = replace(memory_ports(run, lambda: NOW), traces=traces)
    reconcile(Hint(run.url), ports, EvaluationReport(), deadline=math.inf, watch=WATCH)
    checkpoint = ports.checkpoints.load(run.url).checkpoint
    if not with_trace:
        traces = MemoryTraces()
    return stored_page(checkpoint, traces, run, datetime.fromtimestamp(NOW, UTC))


def test_it_is_the_page_of_the_terminal(run: LocalStorage) -> None:
    page, other = stored_of(run), report_on(run, WATCH, now=lambda: NOW)

    assert {rule.name for rule in page.rules if rule.series} == {"VanishingGradient", "LossSpike"}
    assert msgspec.to_builtins(page) == msgspec.to_builtins(other)


def test_of_too_many_files_some_are_read_and_no_loss_is_missed(
    run: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(item.size for item in run.list("index"))
    monkeypatch.setattr(stored, "MOST_BYTES", size / 3.5)
    page = stored_of(run)

    assert page.quality.thinned == "maps show each save in 4; losses and limits are whole"
    assert (page.quality.files, page.quality.steps, page.quality.interval) == (STEPS, STEPS, 1.0)
    (loss,) = page.losses
    assert loss.x == list(range(STEPS))
    assert loss.y[SPIKE] == 50.0
    assert set(np.diff(page.heats["gradient"].x)) == {4}


def test_without_its_trace_it_says_so(run: LocalStorage) -> None:
    page = stored_of(run, with_trace=False)

    assert page.verdict.step == 201  # the spike is info, and never leads
    assert [rule.spans for rule in page.rules] == [[], [], []]
    assert [text for text in page.missing if "verdicts of single steps were not kept" in text]
