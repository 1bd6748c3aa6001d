"""Which looks at a training rules and the configuration ask for."""

from __future__ import annotations

from tocsin_hooks import Hook
from tocsin_hooks.torch.broken import contract_name
from tocsin_hooks.torch.names import SAMPLES, Name
from tocsin_hooks.torch.skill import skill_name

_SKILL = skill_name("loss", "loss")
_CONTRACT = contract_name("broadcast", "train.py:1")


class Wanted:
    """Asks the hook once in each generation of its configuration."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._generation = -1
        self._found: dict[Name, bool] = {}

    @property
    def skill(self) -> bool:
        return self._is_wanted(_SKILL)

    @property
    def contracts(self) -> bool:
        return self._is_wanted(_CONTRACT)

    @property
    def samples(self) -> bool:
        return self._is_wanted(SAMPLES)

    def _is_wanted(self, name: Name) -> bool:
        if self._generation != self._hook.generation:
            self._generation = self._hook.generation
            self._found.clear()
        if name not in self._found:
            self._found[name] = self._hook.wants(
                name.name, name.collections, role=name.role, kind=name.kind
            )
        return self._found[name]
