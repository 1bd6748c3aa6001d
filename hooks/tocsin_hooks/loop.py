"""The steps of a training loop: counted, and those that are saved collected."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tocsin.model import Mode, Role

from tocsin_hooks.capture import capture as reduced
from tocsin_hooks.kept import NamedSaves
from tocsin_hooks.life import Life
from tocsin_hooks.memory import Memory
from tocsin_hooks.meter import Meter
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.position import Position
from tocsin_hooks.step import CapturedStep
from tocsin_hooks.timings import Timings

if TYPE_CHECKING:  # it loads the rules
    from tocsin_hooks.schedule import Due
    from tocsin_hooks.selection import Collections


class CapturedLoop:
    """Counts the steps, and collects the tensors of each saved step.

    Steps do not nest: an inner one is not saved.
    """

    def __init__(self, life: Life) -> None:
        self.position = Position()
        self.meter = Meter()
        self._life = life
        self._open: list[CapturedStep | None] = []
        self._latest: tuple[int, Mode, int] | None = None  # the step that was begun last,
        self._latest_is_saved = False
        self._named = NamedSaves()
        self._due: Due | None = None
        self._metered = 0.0  # up to the last save, without what steps cost that are not saved
        self._begun_at = 0.0
        self._memory = Memory()

    @property
    def step(self) -> CapturedStep | None:
        """The current step. None: there is none, or it is not saved."""
        return self._open[-1] if self._open and self._life.here else None

    @property
    def is_open(self) -> bool:
        """Return whether a step is open, saved or not."""
        return bool(self._open)

    @property
    def timings(self) -> Timings | None:
        """Return where durations are collected; None if steps are not timed."""
        session = self._life.session
        return session.machine.timings if session is not None and self._life.here else None

    def begin(self, mode: Mode, turn: int | None = None) -> None:
        """Count a step, and decide whether it is saved."""
        self._open.append(None)  # whatever happens now: its end takes it away
        mode = Mode(mode)
        self._begun_at = self.meter.seconds
        number, mode_step = self.position.advance(mode)
        self._life.goes_on()
        session = self._life.session
        if session is None or self._life.over or len(self._open) > 1:
            return
        session.recorder.step_begins(mode)
        if (timings := session.machine.timings) is not None:
            timings.begin(mode)
        step = CapturedStep(number, mode, mode_step)
        self._latest, self._latest_is_saved = (number, mode, mode_step), False
        with self.meter:
            self._due = session.begin(step, turn)
        if self._due is not None:
            self._open[-1] = step

    def idle_steps(self, mode: Mode, turn: int | None) -> tuple[int, float]:
        """Return how many steps of this mode come that are sure not to be saved nor timed, and the
        time of the steady clock until which that holds."""
        session = self._life.session
        if session is None or self.timings is not None or len(self._open) > 1:
            return 0, 0.0
        return session.idle_steps(mode, self.position.counters[mode], turn)

    def skipped(self, mode: Mode, steps: int) -> None:
        """So many steps, the last of those that were counted, were neither begun nor ended."""
        if (session := self._life.session) is not None:
            session.selection.schedule.skipped(mode, self.position.counters[mode] - steps, steps)

    def end(self) -> None:
        """Send the current step to be written."""
        step, session = self._open.pop() if self._open else None, self._life.session
        if not self._open and (timings := self.timings) is not None:
            timings.ended_before()
        if step is None or step.empty or session is None or not self._life.here:
            self._metered += self.meter.seconds - self._begun_at  # an interval changes nothing
            if self._named.is_urgent and not (self._open or self._latest_is_saved):
                self._write_kept()
            return
        self._named.move_to(step)
        self._latest_is_saved = True
        spent = self.meter.seconds - self._metered
        self._metered = self.meter.seconds
        with self.meter:
            session.end(step, spent, self.meter.seconds)

    def leave_out(self) -> None:
        """Save nothing of the current step."""
        if self._open:
            self._open[-1] = None

    def close(self) -> None:
        """Write kept tensors after the last step: into it, or into one more step."""
        self._open.clear()
        if self._named and self._life.here:
            latest, counters = self._latest, self.position.counters
            if latest is None or self._latest_is_saved or latest[0] != counters[Mode.GLOBAL] - 1:
                mode = Mode.GLOBAL if latest is None else latest[1]
                number, mode_step = self.position.advance(mode)
                self._latest = number, mode, mode_step
            self._write_kept(anyhow=True)
        self._memory = Memory()

    def _write_kept(self, *, anyhow: bool = False) -> None:
        """Write kept tensors as one more step, if no limit is reached."""
        session = self._life.session
        if self._latest is not None and session is not None and (anyhow or session.has_room):
            step = CapturedStep(*self._latest)
            with self.meter:
                self._named.move_to(step)
                session.put(step)
            self._latest_is_saved = True

    def keep(
        self,
        name: str,
        value: object,
        collection: Collections,
        role: Role | None,
        kind: str | None,
        *,
        raw: bool | None,
        between: bool,
        urgent: bool | None,
    ) -> None:
        """Keep a tensor that the script saves by name while no step is saved.

        ``between``: no step is in hand. In one, what the script saves in each step goes by the
        interval, unless it says how ``urgent`` it is: then a step that is saved takes it, too,
        though it is not its collection's turn.
        """
        session, steps = self._life.session, self.position.counters[Mode.GLOBAL]
        if session is None or self._life.over or not session.writes:
            return
        with self.meter:
            regular = self._named.is_regular(name, steps)
            self._named.saved(name, steps)
            if urgent is None and (self.step is not None or (regular and not between)):
                return
            plan = session.selection.plan_of(name, collection, role, kind)
            plan = plan if raw is None else replace(plan, raw=raw)
            if self.step is not None:
                self.capture(plan, value)
                return
            urgent = not regular if urgent is None else urgent
            self._named.keep(plan, reduced(plan, value), urgent=urgent)

    def plan(
        self,
        name: str,
        collection: Collections,
        role: Role | None,
        kind: str | None,
        *,
        raw: bool | None,
        asked: bool,
    ) -> CapturePlan | None:
        """Return how a tensor is captured in the current step; None: it is not."""
        step, session = self.step, self._life.session
        if step is None or session is None or self._due is None:
            return None
        with self.meter:
            if asked:
                self._named.saved(name, self.position.counters[Mode.GLOBAL])
            plan = session.selection.plan(
                self._due, step.mode, name, collection, role, kind, asked=asked
            )
            return plan if plan is None or raw is None else replace(plan, raw=raw)

    def capture(self, plan: CapturePlan, value: object) -> None:
        """Reduce a value of the host, and add it to the current step."""
        step, name = self.step, plan.saved.name
        if step is None:
            return
        with self.meter:
            key, again = f"{step.mode.name}/{name}", name in step.tensors
            since = partial(self._memory.update, key, again=again)
            for captured in reduced(plan, value, since):
                step.add(plan, captured)
