"""The steps that are saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tocsin.model import Mode
from tocsin.watch import SaveConfig as SaveConfigMode

__all__ = ["SaveConfig", "SaveConfigMode"]


class SaveConfig:
    """The steps that are saved, for all modes alike or for each by itself.

    mode_save_configs: a SaveConfigMode, or its fields as a dict, by mode; a mode that is missing
        has the hook's.
    save_interval, start_step, end_step, save_steps: the same for all modes.
    """

    def __init__(
        self,
        mode_save_configs: Mapping[Any, Any] | None = None,
        save_interval: int | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        save_steps: Sequence[int] | None = None,
    ) -> None:
        if mode_save_configs is None:
            steps = None if save_steps is None else tuple(save_steps)
            plain = SaveConfigMode(save_interval, start_step, end_step, steps)
            mode_save_configs = dict.fromkeys(Mode, plain)
        self.mode_save_configs: dict[Mode, SaveConfigMode] = {
            _mode(mode): _of_mode(config)
            for mode, config in mode_save_configs.items()
            if config is not None
        }

    @classmethod
    def from_dict(
        cls, params: Mapping[Any, Any] | None, default_values: Mapping[str, Any] | None = None
    ) -> SaveConfig | None:
        """Return one of ``mode → SaveConfigMode or dict``; None for None."""
        if params is None:
            return None
        filled = {
            mode: {**(default_values or {}), **config} if isinstance(config, Mapping) else config
            for mode, config in params.items()
        }
        return cls(mode_save_configs=filled)

    @classmethod
    def parse(cls, obj: Any) -> SaveConfig:
        """Return a SaveConfig of whatever a hook takes for one. Raises TypeError."""
        if obj is None or isinstance(obj, Mapping):
            return cls(obj)
        if isinstance(obj, SaveConfigMode):
            return cls(dict.fromkeys(Mode, obj))
        if not isinstance(obj, SaveConfig):
            raise TypeError(f"save_config={obj!r:.200} is not a SaveConfig")
        return obj

    def get_save_config(self, mode: Mode) -> SaveConfigMode:
        """Return the steps of a mode."""
        return self.mode_save_configs[mode]

    def set_save_config(self, mode: Mode, save_config_mode: SaveConfigMode) -> None:
        """Set the steps of a mode. Raises TypeError."""
        self.mode_save_configs[_mode(mode)] = _of_mode(save_config_mode)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SaveConfig) and self.mode_save_configs == other.mode_save_configs

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"SaveConfig({self.mode_save_configs})"


def _mode(mode: Any) -> Mode:
    return Mode[mode] if isinstance(mode, str) else Mode(mode)


def _of_mode(config: Any) -> SaveConfigMode:
    if isinstance(config, Mapping):
        config = SaveConfigMode(**config)
    if not isinstance(config, SaveConfigMode):
        raise TypeError(f"{config!r:.200} is not a SaveConfigMode")
    return config
