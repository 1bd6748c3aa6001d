"""Postponed saves: of training steps that were due to be saved, but had no loss."""

from __future__ import annotations

_MOST_TRIES = 4


class OwedSaves:
    """Postpones the save of a step without a loss to the next step with one.

    Not each step of training ends by an update: a GAN's generator draws samples that are detached,
    a policy goes through a long episode. Where the interval meets such steps only, no loss would
    ever be saved. A step that was due and had none is followed by one that is saved, whatever the
    interval. Once there was such a step, those that are due are left out while fewer steps without
    an update came before them than before each of the last two updates. After some tries in vain
    the next update is waited for.
    """

    def __init__(self) -> None:
        self._owes = False
        self._lacks = False  # a step that was saved had no loss
        self._tries = 0  # in vain, since the last update
        self._since = 0  # steps without an update since the last one that had one
        self._gaps = (0, 0)  # so many came before each of the last two that had one
        self._updated = False  # in the current step

    @property
    def is_due(self) -> bool:
        """Return whether the next step of training is saved in place of an earlier one."""
        return self._owes and self._expects_update and self._tries < _MOST_TRIES

    def owe(self) -> None:
        """Record that a training step that was due is not saved."""
        self._owes = True

    def begins(self, *, due: bool) -> bool:
        """Begin a step of training. Return whether it is left out though it is ``due``."""
        left_out = due and self._lacks and not self._expects_update
        self._owes |= left_out
        return left_out

    def updated(self) -> None:
        """Record an update of the model in the current step."""
        self._updated = True

    def ends(self, *, saved: bool, with_loss: bool) -> None:
        """A step of training ends, ``with_loss`` or whatever else the script saved in it."""
        lacks = saved and not (with_loss or self._updated)
        self._lacks |= lacks
        self._tries += lacks
        self._owes = lacks or (self._owes and not saved)
        if self._updated:
            self._gaps = self._gaps[1], self._since
            self._since = self._tries = 0
        else:
            self._since += 1
        self._updated = False

    @property
    def _expects_update(self) -> bool:
        return self._since >= min(self._gaps)
