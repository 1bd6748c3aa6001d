"""The cases of the detection benchmark: each task, mistake and script is what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.detection import catalogue
from benchmarks.detection.case import PLAIN, Case
from benchmarks.detection.causes import CAUSES
from benchmarks.detection.make import TrainingTask, make_one
from benchmarks.detection.report import PAGE
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.runs import Run
from benchmarks.detection.sample import of_scripts, of_tasks, quick
from benchmarks.detection.task import Training

CHANGES = catalogue.changes()
OF_TASKS = catalogue.cases("tasks")
ADVERSARIAL = {"drawn digits", "ring points"}


def loss_of(t: Training) -> torch.Tensor:
    t.model.train()
    rows = slice(t.batch)
    return t.loss(t.model(t.samples.x[rows]), t.samples.y[rows])


@pytest.mark.parametrize("name", sorted({*catalogue.tasks()} - ADVERSARIAL))
def test_a_task_can_be_trained_and_measured(name: str) -> None:
    t = catalogue.prepared(name, PLAIN, 0)
    loss_of(t).backward()
    assert all(p.grad is not None for p in t.model.parameters() if p.requires_grad)
    assert len(t.samples.x) == len(t.samples.y)
    if t.world is None:
        t.model.eval()
        with torch.no_grad():
            assert t.skill(t.model(t.samples.held_x), t.samples.held_y) < 0.6


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_fits_a_case_and_can_be_made(name: str) -> None:
    case = next(case for case in OF_TASKS if case.name == name)
    task = case.group.split(",")[0]
    plain, changed = (catalogue.prepared(task, each, 0) for each in (PLAIN, name))
    assert plain.again is not None
    differs = replace(plain, again=None) != replace(changed, again=None)
    assert differs
    if task not in ADVERSARIAL:
        loss_of(changed)


def test_a_case_is_found_by_its_folder() -> None:
    every = catalogue.every()
    assert len({case.folder for case in every}) == len(every)
    assert catalogue.find("wine-plain/rate-divided-by-1000").causes == {"slow", "no-skill"}
    groups = {case.group for case in every}
    assert groups == {case.group for case in every if case.is_reference}


def test_every_cause_is_one_of_a_sampled_case() -> None:
    sampled = [*of_tasks(OF_TASKS), *of_scripts(catalogue.cases("scripts"))]
    assert {cause for case in sampled for cause in case.causes} == set(CAUSES)


def test_every_change_is_in_the_sample() -> None:
    sample = of_tasks(OF_TASKS)
    assert {case.name for case in sample} == {PLAIN, *CHANGES}
    assert len(quick(sample)) == 5 * len(catalogue.loops())


def test_the_page_says_how_much_there_is() -> None:
    scripts = catalogue.cases("scripts")
    mistakes = sum(bool(change.causes) for change in CHANGES.values())
    page = PAGE.read_text("utf-8")
    for count, what in (
        (len(catalogue.tasks()), "tasks"),
        (len(catalogue.loops()), "loops"),
        (mistakes, "mistakes"),
        (len(CHANGES) - mistakes, "sound variants"),
        (len(of_tasks(OF_TASKS)), "cases of tasks"),
        (len({case.group for case in scripts}), "scripts"),
        (len(of_scripts(scripts)), "cases of scripts"),
        (len({case.group for case in catalogue.cases("held_out")}), "held-out scripts"),
    ):
        assert f"{count} {what}" in page


def test_a_plain_training_is_kept_with_its_ending(tmp_path: Path) -> None:
    run = Run("wine-plain/plain", 0, tmp_path / "0")
    make_one(TrainingTask(run, None))
    assert run.ending.skill is not None
    assert run.ending.skill > 0.8
    assert run.ending.code == catalogue.find(run.case).digest
    assert run.tensors.is_dir()


def test_a_training_that_raises_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int, hook: RunHook) -> float:
        raise ValueError("not today")

    failing = Case("model", PLAIN, fails)
    monkeypatch.setattr(catalogue, "find", {failing.folder: failing}.__getitem__)
    run = Run(failing.folder, 0, tmp_path / "0")
    make_one(TrainingTask(run, None))
    assert (run.ending.skill, run.ending.error) == (None, "ValueError: not today")
