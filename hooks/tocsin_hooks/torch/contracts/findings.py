"""The contracts that a training has broken, each with its line of the script."""

from __future__ import annotations

from collections import Counter

from tocsin.contracts import SEVERAL_TIMES, SIGN_CONTRACTS, UNLESS, id_and_place
from tocsin.model import Mode

from tocsin_hooks.looks import Name, contract_name
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.capture.captured import CurrentStep

_LOOKS = 3  # at one line of a script, in steps that are saved
_MOST_LINES = 64
_MOST_CALLS = 32  # of one line in a step


class Findings:
    """Saves each broken contract once, and decides whether to check a line of the script again."""

    def __init__(self, step: CurrentStep) -> None:
        self.step = step
        self._looks = Counter[tuple[Mode, str]]()
        self._now = Counter[tuple[Mode, str]]()  # looks in the current step
        self._seen = Counter[Name]()
        self._counted = set[Name]()  # in the current step
        self._found: dict[Name, bool] = {}  # and whether that is saved

    def __call__(self, contract: str, place: str | None = None, /) -> None:
        """Record that a contract is broken, by default in the line of the script that runs."""
        self._add(contract_name(contract, place or script_line()))

    def count(self, contract: str, place: str) -> None:
        """Record a broken contract, some only if they are broken in several saved steps."""
        name = contract_name(contract, place)
        if name in self._counted:
            return
        self._counted.add(name)
        self._seen[name] += 1
        if contract not in SEVERAL_TIMES or self._seen[name] == _LOOKS:
            self._add(name)

    def _add(self, name: Name) -> None:
        others = UNLESS.get(_id_of(name), ())
        if not (others and any(_id_of(each) in others for each in self._found)):
            self._found.setdefault(name, False)

    def has(self, contract: str, place: str) -> bool:
        return contract_name(contract, place) in self._found

    @property
    def has_more(self) -> bool:
        """Return whether something was found that is not saved yet."""
        return not all(self._found.values())

    def looks(self, what: str) -> bool:
        """Return whether to check a line of the script: its first few calls are checked."""
        key = self.step.mode, what
        self._looks[key] += 1
        return self._looks[key] <= _LOOKS

    def looks_in_step(self, what: str) -> bool:
        """Return whether to check a line in this step: all its calls, since several may share a
        line.
        """
        key = self.step.mode, what
        if key not in self._now:
            if not self._looks[key] and len(self._looks) >= _MOST_LINES:
                return False
            self._looks[key] += 1
        self._now[key] += 1
        return self._looks[key] <= _LOOKS and self._now[key] <= _MOST_CALLS

    def update_begins(self, event: events.UpdateBegins) -> None:
        self._forget_signs(event)

    def other_update_begins(self, event: events.OtherUpdateBegins) -> None:
        self._forget_signs(event)

    def _forget_signs(self, event: events.UpdateBegins | events.OtherUpdateBegins) -> None:
        """Report nothing of the sign of a loss that the optimizer maximises."""
        if any(each.get("maximize") for each in event.optimizer.param_groups):
            for name in [name for name, saved in self._found.items() if not saved]:
                if _id_of(name) in SIGN_CONTRACTS:
                    del self._found[name]

    def flush(self) -> None:
        """Add unsaved findings to the current step, which ends."""
        self._now.clear()
        self._counted.clear()
        for name in [name for name, saved in self._found.items() if not saved]:
            plan = self.step.plan(name)
            if plan is not None:
                self.step.hook.capture(plan, 1.0)
                self._found[name] = True


def _id_of(name: Name) -> str:
    return id_and_place(name.name)[0]
