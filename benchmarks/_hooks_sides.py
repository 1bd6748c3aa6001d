"""Measures both libraries in turns."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._hooks_process import Answer, Failed, Process

PLAIN = "no hook"
_FRESH = 3  # processes for each figure of memory


@dataclass(frozen=True)
class Side:
    """A library: the module that measures it, and its variants with and without a hook.

    ``python`` finds or makes the interpreter that has it; it may raise Failed.
    """

    name: str
    module: str
    python: Callable[[], Path]
    hooked: tuple[str, ...]
    plain: tuple[str, ...] = (PLAIN,)


@dataclass
class Measured:
    """The measurements of a side for one model, or its ``error``."""

    side: Side
    error: str | None = None
    environment: Answer = field(default_factory=dict)
    blocks: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    runs: Answer = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    unsaved: dict[str, Sequence[float]] = field(default_factory=dict)

    def seconds(self, variant: str, clock: str = "seconds") -> float:
        return float(statistics.median(block[clock] for block in self.blocks[variant]))

    def ratios(self, variant: str, clock: str = "seconds") -> tuple[float, ...]:
        """Quartiles of a variant's blocks, as multiples of the median without a hook."""
        base = self.seconds(PLAIN, clock)
        found = [block[clock] / base for block in self.blocks[variant]]
        if len(found) == 1:
            return (found[0],) * 3
        return tuple(statistics.quantiles(found, method="inclusive"))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """An exception inside becomes this side's ``error``."""
        try:
            yield
        except Failed as error:
            self.error = str(error)


def measure(
    sides: Sequence[Side], model: str, rounds: int, folder: Path, *, small: bool
) -> list[Measured]:
    found = [Measured(side) for side in sides]
    take_turns(found, model, rounds, folder, small=small)
    for each in found:
        if each.error is None:
            with each.attempt():
                alone(each, model, folder, small=small)
    return found


def take_turns(
    found: Sequence[Measured], model: str, rounds: int, folder: Path, *, small: bool
) -> None:
    """Blocks of all variants of all sides, in a new random order for each round."""
    options = ("--small",) if small else ()
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        for each in found:
            side = each.side
            with each.attempt():
                run = str(folder / side.name)
                arguments = ("blocks", model, run, *side.plain, *side.hooked, *options)
                process = Process(
                    side.python(), side.module, *arguments, log=folder / f"{side.name}.log"
                )
                processes[side.name] = stack.enter_context(process)
                each.environment = process.answer()
        for number in range(rounds):
            turns = [
                (each, variant)
                for each in found
                for variant in (*each.side.plain, *each.side.hooked)
                if each.error is None
            ]
            random.Random(number).shuffle(turns)
            for each, variant in turns:
                with each.attempt():
                    each.blocks[variant].append(processes[each.side.name].ask(variant))
        for each in found:
            if each.error is None:
                with each.attempt():
                    each.runs = processes[each.side.name].last()


def alone(each: Measured, model: str, folder: Path, *, small: bool) -> None:
    """Measures in fresh processes: the memory that a hook adds, as a share of the weights, and the
    microseconds of a step that is not saved."""
    side, options = each.side, ("--small",) if small else ()
    python, log = side.python(), folder / f"{side.name}.log"

    def answer(what: str, variant: str, number: int = 0) -> Answer:
        run = str(folder / f"{side.name} {what} {variant} {number}")
        arguments = (what, model, run, variant, *options)
        exact = what == "memory"
        with Process(python, side.module, *arguments, log=log, exact_memory=exact) as process:
            return process.answer()

    peaks = {}
    for variant in (PLAIN, *side.hooked):
        answers = [answer("memory", variant, number) for number in range(1 if small else _FRESH)]
        peaks[variant] = statistics.median(found["peak"] for found in answers)
        each.memory[variant] = (peaks[variant] - peaks[PLAIN]) / answers[0]["weights"]
    for variant in side.hooked:
        each.unsaved[variant] = [1e6 * added for added in answer("unsaved", variant)["added"]]
