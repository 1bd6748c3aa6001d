"""Log how much is captured, and which rules find no tensor."""

from __future__ import annotations

import logging
from collections.abc import Collection

from tocsin.model import Mode, Role
from tocsin.rules import TRAINING, Read
from tocsin.watch import Watched, resolve

from tocsin_hooks.plan import Saved
from tocsin_hooks.settings import CaptureSettings
from tocsin_hooks.step import CapturedStep
from tocsin_hooks.wishes import wanting

_log = logging.getLogger("tocsin")
_BY_HOOK = "name it by hook.record_loss(loss) or hook.save('loss', loss, collection='losses')"
_PATIENCE = 3  # saves with gradients, but without a loss


class LossCoverage:
    """Warns, once, that a run has no loss: a rule that sees none finds nothing wrong with it.

    ``remedy``: what to do then; by default, that of a script that has the hook at hand.
    """

    def __init__(self, remedy: str | None = None) -> None:
        self._remedy = remedy or _BY_HOOK
        self._trained = 0  # saves of training
        self._with_gradients = 0
        self._silent = False

    def add(self, step: CapturedStep) -> None:
        """A step is about to be written."""
        if self._silent or step.mode is not Mode.TRAIN:
            return
        roles = {saved.place[0] for saved in step.saved.values()}
        self._silent = Role.LOSS in roles
        self._trained += 1
        self._with_gradients += Role.GRADIENT in roles
        if self._with_gradients >= _PATIENCE:
            self.warn()

    def warn(self) -> None:
        """Warn if no loss has been seen in the steps so far: called at the end, too."""
        if self._silent or not self._trained:
            return
        self._silent = True
        _log.warning(
            "no loss was captured in %d saved steps, so no rule can judge it: %s",
            self._trained,
            self._remedy,
        )


def unmatched(settings: CaptureSettings, tensors: Collection[Saved]) -> list[str]:
    """Rules that the watch file names and that read none of ``tensors``, with what they want.

    Rules that are watched without being named are left out: nobody asked for each of them.
    """
    watch, matcher = settings.watch, settings.matcher
    if watch is None or watch.rules is None:
        return []
    named = {config.configuration_name for config in watch.rules}
    return [
        f"{rule.name}: it looks for {', '.join(read.describe() for read in reads)}"
        for rule in resolve(watch, TRAINING)[0]
        if rule.name in named
        and (reads := _needed(rule))
        and not any(read in reads for each in tensors for read in wanting([rule], each, matcher))
    ]


def _needed(rule: Watched) -> list[Read]:
    """Return the reads without which a rule judges nothing; all of them if it names none."""
    reads = rule.reads.tensors
    return [reads[name] for name in rule.reads.needs or reads]


def described(tensors: Collection[Saved]) -> str:
    """Return how many tensors of each collection there are: ``4 losses, 62 weights``."""
    members: dict[str, int] = {}
    for tensor in tensors:
        members[tensor.collections[0]] = members.get(tensor.collections[0], 0) + 1
    return ", ".join(f"{count} in {name}" for name, count in sorted(members.items())) or "nothing"
