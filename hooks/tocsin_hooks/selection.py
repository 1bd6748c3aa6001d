"""The selection of captured tensors and steps."""

from __future__ import annotations

from tocsin.model import Mode, Role

from tocsin_hooks.plan import SCALARS, CapturePlan, Saved
from tocsin_hooks.schedule import Due, Schedule
from tocsin_hooks.settings import CaptureSettings
from tocsin_hooks.wishes import Wishes

_TRAINING_ONLY = frozenset({"gradients", "optimizer_variables"})

_MOST_KNOWN = 1 << 16  # names; there may be new ones in every step

Collections = str | tuple[str, ...] | None


class CaptureSelection:
    """Decides how each tensor is captured, once: by the settings and the rules of a watch file."""

    def __init__(self, settings: CaptureSettings, *, alone: bool = False) -> None:
        self.settings = settings
        self.schedule = Schedule(settings)
        self._wishes = Wishes(settings.watch, settings.matcher, alone=alone)
        self._known: dict[
            tuple[str, Collections, Role | None, str | None], tuple[CapturePlan, bool]
        ] = {}

    def wants(
        self, name: str, collection: Collections, role: Role | None, kind: str | None
    ) -> bool:
        """Return whether any rule or the configuration asks for a tensor; losses always are."""
        return self._look_up(name, collection, role, kind)[1]

    def plan_of(
        self, name: str, collection: Collections, role: Role | None, kind: str | None
    ) -> CapturePlan:
        """Return how a tensor that the script asks for by name is captured, whatever the step."""
        return self._look_up(name, collection, role, kind)[0]

    def plan(
        self,
        due: Due,
        mode: Mode,
        name: str,
        collection: Collections,
        role: Role | None,
        kind: str | None,
        *,
        asked: bool,
    ) -> CapturePlan | None:
        """Return how it is captured in a step of ``mode``, or None if it is not."""
        plan, wanted = self._look_up(name, collection, role, kind)
        collections = plan.saved.collections
        if not ((asked or wanted) and due.wants(collections)):
            return None
        training = mode in (Mode.TRAIN, Mode.GLOBAL) or _TRAINING_ONLY.isdisjoint(collections)
        return plan if training or asked else None

    def _look_up(
        self, name: str, collection: Collections, role: Role | None, kind: str | None
    ) -> tuple[CapturePlan, bool]:
        key = (name, collection, role, kind)
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._work_out(name, collection, role, kind)
        return self._known[key]

    def _work_out(
        self, name: str, collection: Collections, role: Role | None, kind: str | None
    ) -> tuple[CapturePlan, bool]:
        settings = self.settings
        saved = Saved(name, settings.collections_of(name, collection), role, kind)
        wish, wanted = self._wishes.of(saved)
        scalar = not SCALARS.isdisjoint(saved.collections)
        plan = CapturePlan(
            saved,
            wish if scalar else wish.with_quantiles(settings.quantiles(saved.collections)),
            raw=settings.raw(saved.collections),
            reductions=() if scalar else settings.reductions(saved.collections),
            shape=settings.shape(saved.collections),
        )
        return plan, scalar or wanted or settings.asked(saved.collections)
