"""Judges a long history in two processes, each with some of its rules."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import connection, get_context, parent_process
from typing import TypeGuard

from msgspec.structs import replace as with_fields

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.checkpoint_format import decode_checkpoint, encode_checkpoint
from tocsin.evaluation.offline import check
from tocsin.evaluation.unit_of_work import EvaluationReport
from tocsin.rules import get_rule
from tocsin.tensors import WATCH, MemoryStorage, Storage
from tocsin.watch import RuleConfig, Watch, parse_watch

_LONG = 20_000  # steps, from which on a second process saves more time than it costs
# Rules about losses and gradients take as long as all others. Those of a folder share their work.
_SECOND = ("tocsin.rules.loss.", "tocsin.rules.gradients.")


def has_halves(storage: Storage, steps: int) -> TypeGuard[MemoryStorage]:
    """Return whether a second process judges this history faster."""
    is_history = isinstance(storage, MemoryStorage) and storage.is_history
    return is_history and steps > _LONG and (os.cpu_count() or 1) > 1


def check_in_halves(
    storage: MemoryStorage, on_step: Callable[[int], None]
) -> tuple[Checkpoint, EvaluationReport]:
    """Return what ``check`` does for a history with its own ``watch.json``.

    The second process ends with this one. If it fails, this one judges its rules too.
    """
    watch = parse_watch(storage.read(WATCH))
    halves: tuple[list[RuleConfig], ...] = [], []
    for rule in watch.rules or ():
        halves[get_rule(rule.rule).__module__.startswith(_SECOND)].append(rule)
    own, second = (replace(watch, rules=tuple(half)) for half in halves)
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_judge, args=(storage, second, sender), daemon=True)
    process.start()
    sender.close()
    try:
        checkpoint, report = check(storage, own, on_step=on_step)
        try:
            beside = decode_checkpoint(receiver.recv_bytes())
        except (EOFError, OSError):
            beside, _ = check(storage, second)
    finally:
        process.terminate()
        process.join()
        receiver.close()
    found = {**checkpoint.rules, **beside.rules}
    names = [rule.name or rule.rule for rule in watch.rules or ()]
    return with_fields(checkpoint, rules={name: found[name] for name in names}), report


def _judge(storage: MemoryStorage, watch: Watch, sender: connection.Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this
    threading.Thread(target=_end_with_parent, daemon=True).start()
    checkpoint, _ = check(storage, watch)
    sender.send_bytes(encode_checkpoint(checkpoint))


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
