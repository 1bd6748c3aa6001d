"""Which rules find nothing to look at among the tensors that are saved."""

from __future__ import annotations

from tocsin.model import Role
from tocsin.watch import Watch, resolve

from tocsin_hooks._uploader import CapturedStep
from tocsin_hooks._wishes import Saved, selects


def unmatched(watch: Watch | None, step: CapturedStep) -> list[str]:
    """Rules that the watch file names and that read no tensor of ``step``, with what they want.

    Rules that are watched without being named are left out: nobody asked for each of them.
    """
    if watch is None or watch.rules is None:
        return []
    saved = [_saved(name, step) for name in step.tensors]
    return [
        f"{rule.name}: it looks for {', '.join(read.describe() for read in reads)}"
        for rule in resolve(watch)[0]
        if (reads := rule.reads.tensors.values())
        and not any(selects(read, tensor) for read in reads for tensor in saved)
    ]


def _saved(name: str, step: CapturedStep) -> Saved:
    tensor = step.tensors[name]
    collections = tuple(key for key, names in step.members.items() if name in names)
    return Saved(name, collections, Role(tensor.role) if tensor.role else None, tensor.kind)
