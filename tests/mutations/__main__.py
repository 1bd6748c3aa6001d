"""Put faults into copies of the tree, one at a time, and see whether its tests catch them.

    python -m tests.mutations [NAME…] [--list] [--json]

A NAME is that of a fault or of a room; without one all faults of `faults.py` are put in. Each gets
a copy of the tree in a temporary folder, where the tests run that must catch it, up to the first
that fails. At the end those that failed run in a copy without a fault, and must pass. The checkout
is never changed. Exits with 1 unless every fault is caught.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from tests.mutations.faults import FAULTS, Fault
from tests.mutations.plugin import FAILED

ROOT = Path(__file__).parents[2]
AT_ONCE = 2
SECONDS = 600  # a fault may keep a test from ending
IMPORTED = ("rules_layer", "hooks", ".")
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "cdk.out", "node_modules")

CAUGHT = "caught"
NOT_CAUGHT = "NOT caught"
NOT_FOUND = "text not found"
NO_ANSWER = "no answer"


@dataclass(frozen=True)
class Result:
    """The outcome of a fault. ``detail`` is the test that caught it, or why there is no answer."""

    name: str
    room: str
    behaviour: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations",
        description="Put faults into copies of the tree and see whether its tests catch them.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a fault or a room; default: all")
    parser.add_argument("--list", action="store_true", help="list the faults, and run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args(arguments)
    known = {name for fault in FAULTS for name in (fault.name, fault.room)}
    if unknown := sorted({*asked.names} - known):
        parser.error(f"no fault and no room {', '.join(unknown)}: see --list")
    names = {*(asked.names or known)}
    faults = [fault for fault in FAULTS if names & {fault.name, fault.room}]
    if asked.list:
        return _listed(faults)
    started = time.monotonic()
    results = put_in(faults)
    seconds = round(time.monotonic() - started)
    caught = sum(result.outcome == CAUGHT for result in results)
    if asked.json:
        found = [asdict(result) for result in results]
        print(json.dumps({"caught": caught, "seconds": seconds, "faults": found}, indent=1))
    else:
        for result in results:
            print(_line(result))
        print(f"{caught} of {len(results)} faults caught in {seconds} s")
    return 0 if caught == len(results) else 1


def put_in(faults: Sequence[Fault]) -> list[Result]:
    """Puts the faults in, each into a copy of its own, two at the same time."""
    with TemporaryDirectory(prefix="tocsin-mutations-") as folder:
        tree = Path(folder).resolve() / "as-it-is"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)  # others may change the checkout meanwhile
        progress = Progress(len(faults))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(lambda fault: _put_in(tree, fault, progress), faults))
        progress.say("running without a fault what has failed …")
        results = list(_confirmed(tree, results))
        progress.say("")
        return results


def occurrences(tree: Path, fault: Fault) -> int:
    """How often the text of a fault stands in its file; 0 where there is no such file."""
    file = tree / fault.file
    return file.read_text().count(fault.text) if file.is_file() else 0


def _put_in(tree: Path, fault: Fault, progress: Progress) -> Result:
    started = time.monotonic()
    outcome, detail = _outcome(tree, fault)
    progress.step()
    seconds = round(time.monotonic() - started, 1)
    return Result(fault.name, fault.room, fault.behaviour, outcome, detail, seconds)


def _outcome(tree: Path, fault: Fault) -> tuple[str, str]:
    """The outcome of a fault, and its detail."""
    if (found := occurrences(tree, fault)) != 1:
        stands = f"stands {found} times in" if found else "is not in"
        return NOT_FOUND, f"its text {stands} {fault.file}: restate it in tests/mutations/faults.py"
    suites = [tests for tests in fault.caught_by if (tree / tests).exists()]
    for tests in suites:
        status, failed, output = _pytest(tree, ["-x", tests], fault)
        if status == 1 and failed:
            return CAUGHT, failed[0]
        if status != 0:  # a file of tests that cannot be imported tells nothing
            return NO_ANSWER, output
    return (NOT_CAUGHT, "") if suites else (NO_ANSWER, f"there is no {fault.caught_by[-1]}")


def _confirmed(tree: Path, results: Sequence[Result]) -> Iterator[Result]:
    """The results; a test that fails without a fault as well has caught nothing."""
    tests = dict.fromkeys(result.detail for result in results if result.outcome == CAUGHT)
    status, failed, output = _pytest(tree, tests) if tests else (0, (), "")
    for result in results:
        if result.outcome != CAUGHT or status == 0:
            yield result
        elif status != 1 or result.detail in failed:
            why = output if status != 1 else f"{result.detail} fails without the fault as well"
            yield replace(result, outcome=NO_ANSWER, detail=why)
        else:
            yield result


def _pytest(
    tree: Path, options: Iterable[str], fault: Fault | None = None
) -> tuple[int, Sequence[str], str]:
    """Runs pytest in a copy of the tree, with a fault put in if there is one. Returns the exit
    status, the tests that failed, and the end of the output.
    """
    with TemporaryDirectory(prefix="copy-", dir=tree.parent) as folder:
        copy = Path(shutil.copytree(tree, Path(folder) / "tree"))
        if fault is not None:
            file = copy / fault.file
            file.write_text(file.read_text().replace(fault.text, fault.replacement))
        path = os.pathsep.join(str((copy / each).resolve()) for each in IMPORTED)
        own = ("-p", "tests.mutations.plugin", "--tb=no", f"--basetemp={copy.parent / 'temporary'}")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *own, *options],
                cwd=copy,
                env=os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return -1, (), f"no end within {SECONDS} s"
        failed = copy.parent / FAILED
        last = (done.stdout + done.stderr).strip().splitlines()[-3:]
        return (
            done.returncode,
            json.loads(failed.read_text()) if failed.exists() else (),
            f"pytest ended with {done.returncode}: {' | '.join(last)[-600:]}",
        )


class Progress:
    """A line on a terminal that says how far it is; nothing elsewhere."""

    def __init__(self, of: int) -> None:
        self._of = of
        self._done = 0
        self._lock = Lock()

    def step(self) -> None:
        with self._lock:
            self._done += 1
            self.say(f"{self._done} of {self._of} faults put in …")

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _line(result: Result) -> str:
    about = result.detail if result.outcome == CAUGHT else f"{result.behaviour} {result.detail}"
    return f"{result.outcome:16}{result.seconds:5.0f} s  {result.room:12}{result.name:30}{about}"


def _listed(faults: Iterable[Fault]) -> int:
    """Prints the faults, and says which cannot be put in; 1 if there is one."""
    lost = [fault for fault in faults if occurrences(ROOT, fault) != 1]
    for fault in faults:
        mark = f"  ({NOT_FOUND} in {fault.file})" if fault in lost else ""
        print(f"{fault.room:12}{fault.name:30}{fault.behaviour}{mark}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
