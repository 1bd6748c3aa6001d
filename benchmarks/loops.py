"""Count the slow loops that the rules about the machine find: ``python -m benchmarks.loops``.

Each loop is a process with a real hook, in which a minute lasts a second; computing is sleeping, as
the host does while a device computes. Healthy loops count where any rule fires.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tocsin.evaluation import check, document
from tocsin.tensors import index_objects, open_storage
from tocsin.tensors.layout import parse_index_key
from tocsin.watch import Machine, Watch
from tocsin_hooks import Hook, modes

_SECONDS = 16.0  # of a loop: so many minutes
_AT_ONCE = 4
_STEP = 0.02

Loop = Callable[[Hook, Iterator[float]], None]


def steps(
    hook: Hook,
    left: Iterator[float],
    *,
    load: Callable[[int], float] = lambda step: 0.0,
    compute: Callable[[int], float] = lambda step: _STEP,
    between: Callable[[int], float] = lambda step: 0.0,
    busy: bool = False,
) -> None:
    """Trains until the time is up. All take the number of the step and give seconds."""

    def batches() -> Iterator[int]:
        for step, _ in enumerate(left):
            (_work if busy else time.sleep)(load(step))
            yield step

    for step in hook.data(batches()):
        with hook.step():
            time.sleep(compute(step))
        time.sleep(between(step))


def _work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))


def minute(of: float) -> Callable[[int], bool]:
    """Return whether so many minutes have passed since now."""
    begun = time.monotonic()
    return lambda step: time.monotonic() - begun > of


def evaluating(hook: Hook, left: Iterator[float]) -> None:
    for step, _ in enumerate(left):
        with hook.step():
            time.sleep(_STEP)
        if step % 100 == 99:
            for _ in range(40):
                with hook.step(modes.EVAL):
                    time.sleep(_STEP)


def hanging(hook: Hook, left: Iterator[float]) -> None:
    late = minute(6)
    for step, _ in enumerate(left):
        with hook.step():
            time.sleep(_STEP)
            while late(step) and next(left, None) is not None:
                time.sleep(0.05)


def hanging_loader(hook: Hook, left: Iterator[float]) -> None:
    late = minute(6)
    steps(hook, left, load=lambda step: 60.0 if late(step) else 0.0)


def slower(hook: Hook, left: Iterator[float]) -> None:
    late = minute(8)
    steps(hook, left, compute=lambda step: 2 * _STEP if late(step) else _STEP)


def growing(hook: Hook, left: Iterator[float]) -> None:
    begun = time.monotonic()
    steps(hook, left, compute=lambda step: _STEP * (1 + (time.monotonic() - begun) / 8))


def never(hook: Hook, left: Iterator[float]) -> None:
    for _ in left:
        time.sleep(0.05)


def uneven(hook: Hook, left: Iterator[float]) -> None:
    chance = random.Random(0)
    steps(hook, left, compute=lambda step: _STEP * chance.uniform(0.5, 1.5))


def long_tailed(hook: Hook, left: Iterator[float]) -> None:
    chance = random.Random(0)
    steps(hook, left, compute=lambda step: _STEP * chance.lognormvariate(0, 0.3))


def warming_up(hook: Hook, left: Iterator[float]) -> None:
    time.sleep(2)
    steps(hook, left, compute=lambda step: 1.0 if step < 2 else _STEP)


def straggling(hook: Hook, left: Iterator[float]) -> None:
    own = 1.6 if os.environ["GROUP_RANK"] == "1" else 1.0
    steps(hook, left, compute=lambda step: own * _STEP)


@dataclass(frozen=True)
class Case:
    """A loop, the rule that is to fire (None: it is healthy), and how it runs."""

    loop: Loop
    rule: str | None = None
    nodes: int = 1
    seconds: float = _SECONDS


def _with(**options: object) -> Loop:
    return lambda hook, left: steps(hook, left, **options)  # type: ignore[arg-type]


CASES: dict[str, Case] = {
    "computing all the time": Case(_with()),
    "a fast loader": Case(_with(load=lambda step: 0.002)),
    "a loader that is slow at first": Case(_with(load=lambda step: 0.5 if step < 4 else 0.0)),
    "evaluations": Case(evaluating),
    "checkpoints": Case(_with(between=lambda step: 0.5 if step % 200 == 199 else 0.0)),
    "checkpoints in the step, rarely": Case(
        _with(compute=lambda step: 0.3 if step % 200 == 199 else _STEP)
    ),
    "uneven sequence lengths": Case(uneven),
    "lengths with a long tail": Case(long_tailed),
    "a warm-up": Case(warming_up),
    "accumulation": Case(_with(compute=lambda step: 2 * _STEP if step % 4 == 3 else _STEP)),
    "steps of most of a minute": Case(_with(compute=lambda step: 0.7)),
    "two machines alike": Case(_with(), nodes=2),
    "a slow loader": Case(_with(load=lambda step: 0.04), "InputBottleneck"),
    "a loader slow at each fifth batch": Case(
        _with(load=lambda step: 0.1 if step % 5 == 0 else 0.0), "InputBottleneck"
    ),
    "one process that prepares batches": Case(
        _with(load=lambda step: 0.03, busy=True), "InputBottleneck"
    ),
    "a slow disk": Case(
        _with(load=lambda step: 0.15 if step % 10 == 0 else 0.002), "InputBottleneck"
    ),
    "pauses of the garbage collector": Case(
        _with(compute=lambda step: 0.15 if step % 8 == 0 else _STEP), "StepTimeOutlier"
    ),
    "a lock": Case(_with(compute=lambda step: 0.1 if step % 12 < 2 else _STEP), "StepTimeOutlier"),
    "logs written in the step": Case(
        _with(compute=lambda step: 0.1 if step % 8 == 0 else _STEP), "StepTimeOutlier"
    ),
    "slower from some time on": Case(slower, "SlowerThanBefore", seconds=20),
    "a list that grows": Case(growing, "SlowerThanBefore", seconds=24),
    "a hang in the step": Case(hanging, "TrainingHung"),
    "a hang in the loader": Case(hanging_loader, "TrainingHung"),
    "a start that takes for ever": Case(never, "MaxInitializationTime", seconds=25),
    "one of two machines slower": Case(straggling, "StragglingNode", nodes=2),
}


def run(name: str, out: str) -> None:
    """Runs a loop in this process."""
    case = CASES[name]
    until = time.monotonic() + case.seconds

    def left() -> Iterator[float]:
        while time.monotonic() < until:
            yield until

    watch = Watch(machine=Machine("100ms", gpu=False))
    hook = Hook(out, watch, save_interval=10**9)
    if case.loop is hanging_loader:  # nothing ends it but the end of the process
        import threading

        threading.Thread(target=case.loop, args=(hook, left()), daemon=True).start()
        time.sleep(case.seconds)
    else:
        case.loop(hook, left())
    hook.close()


def judge(name: str) -> tuple[list[str], float | None]:
    """The rules that fire, and after how many minutes the first did."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        processes = [_started(name, folder, number, case.nodes) for number in range(case.nodes)]
        for process in processes:
            process.wait()
        storage = open_storage(f"{folder}/profiler-output")
        places = filter(None, (parse_index_key(each.key) for each in index_objects(storage)))
        begin = min(step for step, _ in places)
        rules = document(check(storage)[0])["rules"]
    fired = [rule for rule in rules if rule["RuleEvaluationStatus"] == "IssuesFound"]
    fired.sort(key=lambda rule: rule["FiredAt"]["step"])
    minutes = [rule["FiredAt"]["step"] - begin + 1 for rule in fired]
    return [rule["Rule"] for rule in fired], minutes[0] if minutes else None


def _started(name: str, folder: str, number: int, nodes: int) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "TOCSIN_MINUTE": "1",
        "LOCAL_RANK": "0",
        "GROUP_RANK": str(number),
        "WORLD_SIZE": str(nodes),
        "LOCAL_WORLD_SIZE": "1",
        "TMPDIR": str(Path(folder) / f"node_{number}"),  # two machines share no lock
    }
    Path(environment["TMPDIR"]).mkdir()
    command = [sys.executable, "-m", "benchmarks.loops", name, folder]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def report(found: Iterable[tuple[str, tuple[list[str], float | None]]]) -> None:
    right = {True: 0, False: 0}
    first = []
    for name, (rules, minutes) in found:
        expected = CASES[name].rule
        good = expected in rules if expected else not rules
        right[expected is not None] += good
        if expected == "InputBottleneck" and minutes is not None:
            first.append(minutes)
        sign = " " if good else "!"
        after = "" if minutes is None else f", after {minutes:g} min"
        print(f"{sign} {name:36}{expected or 'healthy':24}{' '.join(rules) or '-'}{after}")
    faulty = sum(case.rule is not None for case in CASES.values())
    healthy = len(CASES) - faulty
    print(f"\nfound {right[True]} of {faulty} faulty loops; ", end="")
    print(f"{healthy - right[False]} of {healthy} healthy ones alarmed")
    print(f"input-bound loops are found after at most {max(first, default=0):g} minutes")


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.loops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("loop", nargs="*", metavar="NAME FOLDER", help="run one loop")
    one = parser.parse_args().loop
    if one and (len(one) != 2 or one[0] not in CASES):
        parser.error(f"name a loop and a folder; there are {', '.join(CASES)}")
    if one:
        run(*one)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        report(zip(CASES, pool.map(judge, CASES), strict=True))


if __name__ == "__main__":
    main()
