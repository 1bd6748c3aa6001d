"""Decides in which steps losses are checked and compared."""

from __future__ import annotations

from tocsin.model import Mode

from tocsin_hooks.looks import EVERY_STEP, Wanted, is_compared
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.contracts.updates import UpdateContracts
from tocsin_hooks.torch.opponents import Opponents

_MOST_PASSES = 64  # of a training step


class LookSchedule:
    """The steps whose losses are checked: in training the first ones, then the saved ones; in saved
    evaluations, fewer and fewer passes. Nothing is compared if optimizers take turns.

    The first steps are so many, whatever is found in them, and fewer where looks take long.
    """

    def __init__(
        self, step: CurrentStep, wanted: Wanted, updates: UpdateContracts, opponents: Opponents
    ) -> None:
        self._step = step
        self._wanted = wanted
        self._updates = updates
        self._opponents = opponents
        self._left = EVERY_STEP  # steps
        self._is_every_step = True

    def forward_begins(self) -> None:
        """Handle the start of a pass: decide whether unsaved steps are checked."""
        if self._step.mode is Mode.TRAIN:
            self._count(steps=self._step.passes == 1)

    def step_begins(self) -> None:
        """Handle the start of a step whose forward passes are not visible, in the same way."""
        self._count(steps=1)

    def _count(self, *, steps: int) -> None:
        if self._is_every_step:
            self._left -= steps
            contracts = self._wanted.contracts and not self._updates.over
            wanted = self._left >= 0 and (contracts or self.wants_skill)
            self._is_every_step = wanted and self._step.hook.allows_looks

    @property
    def is_every_step(self) -> bool:
        """Return whether steps that are not saved are checked. Once false, it stays false."""
        return self._is_every_step

    @property
    def is_due(self) -> bool:
        """Return whether the calls of this pass are checked."""
        return self._step.saving or (self._step.mode is Mode.TRAIN and self._is_every_step)

    @property
    def is_one_of_many(self) -> bool:
        """Return whether the current pass is of an evaluation, or late in a long step: an episode,
        or a generated text.
        """
        return self._step.mode is not Mode.TRAIN or self._step.passes > _MOST_PASSES

    @property
    def compares(self) -> bool:
        """Return whether losses of this pass are compared."""
        if self._step.mode is Mode.TRAIN:
            return not self._step.again
        return is_compared(self._step.passes)

    @property
    def records(self) -> bool:
        """Return whether the computations after this pass are recorded: in an evaluation after each
        pass, compared or not.
        """
        looks = self.compares or self._step.mode is not Mode.TRAIN
        return looks and self._step.loss_kind is None and self.wants_skill

    @property
    def wants_skill(self) -> bool:
        return self._wanted.skill and not self._opponents.are_known
