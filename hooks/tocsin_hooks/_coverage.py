"""Which rules find nothing to look at among the tensors that are saved."""

from __future__ import annotations

from tocsin.rules import Read
from tocsin.tensors import search
from tocsin.watch import Watch, resolve

from tocsin_hooks._uploader import CapturedStep


def unmatched(watch: Watch | None, step: CapturedStep) -> list[str]:
    """Rules that the watch file names and that read no tensor of ``step``, with what they want.

    Rules that are watched without being named are left out: nobody asked for each of them.
    """
    if watch is None or watch.rules is None:
        return []
    return [
        f"{watched.name}: it looks for {read.describe()}"
        for watched in resolve(watch)[0]
        for read in watched.reads.tensors.values()
        if not _found(read, step)
    ]


def _found(read: Read, step: CapturedStep) -> bool:
    if read.collections or read.regex:
        named = any(step.members.get(name) for name in read.collections)
        return named or any(search(p, name) for p in read.regex for name in step.tensors)
    return not read.roles or any(tensor.role in read.roles for tensor in step.tensors.values())
