"""Every case of the benchmark: tasks with loops and changes, scripts, and held-out tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from benchmarks.detection import kit, loop, task
from benchmarks.detection.case import PLAIN, Case
from benchmarks.detection.change import CHANGES, Change
from benchmarks.detection.loop import Loop
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Task, Training, prepare

PARTS = ("tasks", "scripts", "held_out")


@cache
def modules(folder: str) -> Mapping[str, ModuleType]:
    """Return the modules of a folder of the benchmark by their names, in words."""
    found = sorted(path.stem for path in Path(__file__).with_name(folder).glob("[a-z]*.py"))
    return {
        name.replace("_", " "): import_module(f"benchmarks.detection.{folder}.{name}")
        for name in found
    }


@cache
def tasks() -> Mapping[str, Task]:
    return {name: module.TASK for name, module in modules("tasks").items()}


@cache
def loops() -> Mapping[str, Loop]:
    return {name: module.LOOP for name, module in modules("loops").items()}


@cache
def changes() -> Mapping[str, Change]:
    modules("mistakes")  # which register them
    return CHANGES


@cache
def cases(part: str) -> tuple[Case, ...]:
    """Return the cases of a part, one of PARTS."""
    if part == "tasks":
        return tuple(_of_tasks())
    found = (getattr(module, "CASES", ()) for module in modules(part).values())
    return tuple(case for each in found for case in each)


def every() -> tuple[Case, ...]:
    return tuple(case for part in PARTS for case in cases(part))


def find(folder: str) -> Case:
    """Return the case of that folder. Raises KeyError."""
    return _by_folder()[folder]


def train(task_name: str, loop_name: str, change_name: str, seed: int, hook: RunHook) -> float:
    """Carry out a case of a task."""
    training = prepared(task_name, change_name, seed)
    torch.manual_seed(seed + 1)
    return loops()[loop_name].train(training, hook)


def prepared(task_name: str, change_name: str, seed: int) -> Training:
    """Return a task's training with a change, or PLAIN, made; it can be made again elsewhere."""
    training = prepare(tasks()[task_name], seed)
    training = replace(training, again=partial(prepared, task_name, change_name, seed))
    return training if change_name == PLAIN else changes()[change_name].apply(training)


def _of_tasks() -> Iterable[Case]:
    for task_name, one in tasks().items():
        for loop_name, way in loops().items():
            if not way.fits(one.traits):
                continue
            group = f"{task_name}, {loop_name}"
            sources: tuple[Any, ...] = (
                kit,
                task,
                loop,
                modules("tasks")[task_name],
                modules("loops")[loop_name],
            )
            plain = partial(train, task_name, loop_name, PLAIN)
            yield Case(group, PLAIN, plain, kind=PLAIN, loop=loop_name, sources=sources)
            for name, change in changes().items():
                if change.part in way.parts and change.fits(one.traits):
                    yield Case(
                        group,
                        name,
                        partial(train, task_name, loop_name, name),
                        change.causes,
                        change.certain,
                        kind=change.part,
                        loop=loop_name,
                        sources=(*sources, change.source),
                    )


@cache
def _by_folder() -> Mapping[str, Case]:
    return {case.folder: case for case in every()}
