"""``python -m tocsin_hooks.machine OUT [-- COMMAND …]``: watches the machine beside any program."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence

from tocsin.watch import BadWatch, Machine, Watch, read_watch

from tocsin_hooks.container import switched_off
from tocsin_hooks.machine.watching import SAMPLED, MachineWatch

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CLOSING = 30.0  # seconds


def main(arguments: Sequence[str]) -> int:
    """Return the command's exit code, or 2 where the machine cannot be watched."""
    arguments = list(arguments)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = _parser().parse_args(arguments[:at]), arguments[at + 1 :]
    if switched_off():
        return subprocess.call(command) if command else 0  # noqa: S603 - the user's own
    try:
        watch = read_watch(options.watch) if options.watch else None
        machine = _machine(watch, options)
        process = _begun(command, options.out)
    except (BadWatch, OSError, ValueError) as error:
        return _refused(error)
    try:
        pid = process.pid if process else 0
        watching = MachineWatch(options.out, machine, watch, uuid.uuid4().hex, pid=pid)
    except (OSError, ValueError) as error:
        if process is None:
            return _refused(error)
        _refused(error)
        return process.wait()
    code = _wait(process)
    watching.close(marker=code == 0, timeout=_CLOSING)
    return code


def _machine(watch: Watch | None, options: argparse.Namespace) -> Machine:
    """Return the section of the watch file, overridden by the options."""
    own = (watch.machine if watch else None) or Machine()
    machine = Machine(
        options.interval or own.interval, False if options.no_gpu else own.gpu, own.processes
    )
    _ = machine.seconds
    return machine


def _begun(command: Sequence[str], run: str) -> subprocess.Popen[bytes] | None:
    if not command:
        return None
    return subprocess.Popen(command, env={**os.environ, SAMPLED: run})  # noqa: S603 - the user's own


def _wait(process: subprocess.Popen[bytes] | None) -> int:
    """Wait for the command, or without one for a signal. Signals are passed on to the command."""
    asked = threading.Event()

    def receive(number: int, _: object) -> None:
        asked.set()
        if process is not None:
            process.send_signal(number)

    for each in _SIGNALS:
        signal.signal(each, receive)
    if process is not None:
        code = process.wait()
        return code if code >= 0 else 128 - code
    asked.wait()
    return 0


def _refused(error: Exception) -> int:
    print(f"tocsin: {error}", file=sys.stderr)  # noqa: T201 - a command
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tocsin_hooks.machine",
        description="Writes a summary of CPU, memory, disk, network and GPUs each minute, until "
        "the command ends, or without one until SIGTERM.",
        epilog="Example: python -m tocsin_hooks.machine s3://bucket/jobs/j1 -- ./train.sh",
        usage="%(prog)s OUT [--watch FILE] [--interval TIME] [--no-gpu] [-- COMMAND …]",
    )
    parser.add_argument("out", metavar="OUT", help="the training's run, or a folder for it")
    parser.add_argument("--watch", metavar="FILE", help="a watch file, for its rules and actions")
    parser.add_argument("--interval", metavar="TIME", help="between two samples; default 500ms")
    parser.add_argument("--no-gpu", action="store_true", help="leave GPUs out")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
