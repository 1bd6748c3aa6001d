"""The common part of all frameworks' hooks: a script's configuration, and its saves."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tocsin_hooks import Hook
from tocsin_hooks.container import Container, container

from tocsin.model import Mode
from tocsin.smdebug.core.collection import Collection
from tocsin.smdebug.core.reduction_config import ReductionConfig
from tocsin.smdebug.core.save_config import SaveConfig
from tocsin.watch import Capture, CollectionConfig, built_in, built_in_patterns, patterns
from tocsin.watch import SaveConfig as Steps

__all__ = ["BaseHook", "CallbackHook"]

_log = logging.getLogger("tocsin")
_SCALAR = "scalar/"


class HookOfScript(Hook):
    """A hook whose steps are of the mode that the script has set, if it has set one, and are saved
    by their numbers alone, whichever optimizer's turn it is and whether it is the last."""

    mode: Mode | None = None

    def begin(self, mode: Mode = Mode.TRAIN, *, turn: int | None = None) -> bool:
        return super().begin(self.mode or mode)


class BaseHook:
    """The configuration of a hook as a script makes it, and what a script saves by name.

    The capture begins with the first step: until then collections may be added and changed.

    Parameters
    ----------
    out_dir: the run: a folder or ``s3://bucket/prefix``. None: where SageMaker's
        ``debughookconfig.json`` says, else what ``TOCSIN_RUN`` says.
    reduction_config, save_config, include_regex, include_collections, save_all, include_workers:
        as smdebug has them. Steps that a ``save_config`` names are saved, and no others.
    export_tensorboard, tensorboard_dir, dry_run: have no effect, which is logged where they are
        set.
    options: those of ``tocsin_hooks.Hook``: ``watch``, ``judge``, ``max_overhead`` …
    """

    default_collections: ClassVar[tuple[str, ...]] = ("losses",)
    default_interval: ClassVar[int] = 500

    def __init__(
        self,
        out_dir: str | Path | None = None,
        export_tensorboard: bool = False,
        tensorboard_dir: str | None = None,
        dry_run: bool = False,
        reduction_config: ReductionConfig | None = None,
        save_config: Any = None,
        include_regex: Iterable[str] | None = None,
        include_collections: Iterable[str] | None = None,
        save_all: bool = False,
        include_workers: str = "one",
        **options: Any,
    ) -> None:
        for name, value in (("export_tensorboard", export_tensorboard), ("dry_run", dry_run)):
            if value:
                _log.warning("%s has no effect: see `tocsin tensors --export-tensorboard`", name)
        self.out_dir = out_dir
        self.reduction_config = reduction_config
        self.save_config = None if save_config is None else SaveConfig.parse(save_config)
        self.include_collections = {*(include_collections or ()), *self.default_collections}
        self.save_all = save_all
        self.include_workers = include_workers
        self.mode: Mode | None = None
        self._options = options
        self._collections: dict[str, Collection] = {}
        self._container: Container | None = None
        self._hook: HookOfScript | None = None
        self._early: dict[str, tuple[Any, tuple[str, ...] | None]] = {}
        if include_regex:
            self.get_collection("default").include(include_regex)
            self.include_collections.add("default")

    @classmethod
    def create_from_json_file(cls, json_file_path: str | Path | None = None) -> Any:
        """Return a hook as SageMaker's ``debughookconfig.json`` configures it.

        ``json_file_path`` is that file, by default ``$SMDEBUG_CONFIG_FILE_PATH`` or where the
        container has it. Raises FileNotFoundError, and BadWatch for a file with an error.
        """
        found = container(cls.default_interval, json_file_path)
        if found is None:
            where = json_file_path or "no SMDEBUG_CONFIG_FILE_PATH is set, and no container"
            raise FileNotFoundError(f"there is no configuration of a hook: {where}")
        hook = cls(found.path)
        hook._container = found
        hook.include_collections |= set(found.capture.collections)
        return hook

    hook_from_config = create_from_json_file

    # Configuration.

    def get_collection(self, name: str, create: bool = True) -> Collection:
        """Return a collection, a new one if there is none yet."""
        if not create and name not in self._collections and not built_in(name):
            raise ValueError(f"there is no collection {name!r:.100}")
        return self._collections.setdefault(name, Collection(name))

    def get_collections(self) -> Mapping[str, Collection]:
        """Return the collections that the script has asked for so far."""
        return self._collections

    def add_collection(self, collection: Collection) -> None:
        """Add a collection that the script has made, in place of one of its name."""
        if not isinstance(collection, Collection):
            raise TypeError(f"{collection!r:.200} is not a Collection")
        self._collections[collection.name] = collection

    def set_mode(self, mode: Mode) -> None:
        """Count the steps that begin from now on as steps of a mode."""
        self.mode = Mode(mode)
        if self._hook is not None:
            self._hook.mode = self.mode

    # Saves.

    def save_scalar(
        self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None
    ) -> None:
        """Save a number as ``scalar/NAME`` with the step in hand or the next that is saved, or, at
        the end, with the last step. Raises TypeError for more than one number.

        ``sm_metric`` and ``timestamp`` have no effect.
        """
        if np.size(value) != 1 and getattr(value, "size", 1) != 1:
            raise TypeError(f"{name} is not a single number but {type(value).__name__}")
        self._save(_SCALAR + name, value, None)

    def save_tensor(
        self,
        tensor_name: str,
        tensor_value: Any,
        collections_to_write: str | Iterable[str] = "default",
    ) -> None:
        """Save a tensor of collections with the step in hand or the next that is saved."""
        given = collections_to_write
        self._save(tensor_name, tensor_value, (given,) if isinstance(given, str) else tuple(given))

    def _save(self, name: str, value: Any, collections: tuple[str, ...] | None) -> None:
        if self._hook is None:  # the script may add collections yet
            self._early[name] = (
                value.copy() if isinstance(value, np.ndarray) else value,
                collections,
            )
        else:
            self._hook.keep(name, value, collections, raw=True, urgent=False)

    def close(self) -> None:
        """Write what is waiting, and the end of the run."""
        if self._hook is not None or self._early:
            self.hook.close()

    @property
    def hook(self) -> HookOfScript:
        """The hook underneath. From now on the configuration stands."""
        if self._hook is None:
            self._hook = HookOfScript(self.out_dir, capture=self._capture(), **self._arguments())
            self._hook.mode = self.mode
            for name, (value, collections) in self._early.items():
                self._save(name, value, collections)
            self._early.clear()
        return self._hook

    @property
    def should_stop(self) -> bool:
        """Return whether somebody asked for a stop. See ``tocsin_hooks.Hook.should_stop``."""
        return self._hook is not None and self._hook.should_stop

    def _arguments(self) -> dict[str, Any]:
        """The arguments of the hook underneath. smdebug saves what is asked for, at any cost."""
        return {"max_overhead": None, **self._options}

    def _capture(self) -> Capture:
        """The configuration of the container, if there is one, with what the script says."""
        configured = Capture() if self._container is None else self._container.capture
        names = sorted(self.include_collections | ({"all"} if self.save_all else set()))
        if "all" in names:
            names += [name for name in self._collections if name not in names]
        interval = configured.save_interval or self.default_interval
        steps = {} if self.save_config is None else _steps(self.save_config, interval)
        return replace(
            configured,
            save_interval=interval,
            modes={**configured.modes, **steps},
            include_workers=configured.include_workers or _workers(self.include_workers),
            collections={name: self._collection(name, configured) for name in names},
        )

    def _collection(self, name: str, capture: Capture) -> CollectionConfig:
        """A collection as the container has it, with what the script says of it."""
        config = capture.collections.get(name, CollectionConfig())
        said = self._collections.get(name, Collection(name))
        own = [*said.include_regex, *self._patterns_of_parts(said)]
        own += [f"^{re.escape(each)}$" for each in sorted(said.tensor_names)]
        if own:
            known = patterns(config) or built_in_patterns(name)
            config = replace(config, include_regex=(*known, *own))
        if said.save_config is not None:
            interval = config.save_interval or self.default_interval
            config = replace(config, modes={**config.modes, **_steps(said.save_config, interval)})
        if reduction := said.reduction_config or self.reduction_config:
            return replace(
                config,
                reductions=reduction.names,
                save_raw_tensor=reduction.save_raw_tensor,
                save_shape=reduction.save_shape,
            )
        return config if self._container else replace(config, save_raw_tensor=True)

    def _patterns_of_parts(self, collection: Collection) -> list[str]:
        """Patterns of the tensors of the parts of a model that were added to a collection."""
        found = []
        for part, (inputs, outputs) in collection.modules.items():
            name = re.escape(self._name_of_part(part))
            found += [f"^{name}_input_"] * inputs + [f"^{name}_output_"] * outputs
        return found

    def _name_of_part(self, part: Any) -> str:
        """The name of a module or block of the model."""
        return str(part.name)


CallbackHook = BaseHook


def _steps(config: SaveConfig, interval: int) -> dict[Mode, Steps]:
    """The steps of each mode; an interval that is left open is said, as EVAL has none else."""
    return {
        mode: Steps(
            each.save_interval or interval,
            each.start_step,
            each.end_step,
            None if each.save_steps is None else tuple(each.save_steps),
        )
        for mode, each in config.mode_save_configs.items()
    }


def _workers(include: str) -> Any:
    if include not in ("one", "all"):
        raise ValueError(f"include_workers is {include!r:.100}, but must be one or all")
    return include
