"""Collections: which tensors are saved together, when and how."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.smdebug.core.reduction_config import ReductionConfig
from tocsin.smdebug.core.save_config import SaveConfig

__all__ = ["Collection", "CollectionKeys"]


class CollectionKeys:
    """The names of smdebug's own collections."""

    DEFAULT = "default"
    ALL = "all"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    LOSSES = "losses"
    BIASES = "biases"
    LAYERS = "layers"
    SM_METRICS = "sm_metrics"
    OPTIMIZER_VARIABLES = "optimizer_variables"
    TENSORFLOW_SUMMARIES = "tensorflow_summaries"
    METRICS = "metrics"
    HYPERPARAMETERS = "hyperparameters"
    PREDICTIONS = "predictions"
    LABELS = "labels"
    FEATURE_IMPORTANCE = "feature_importance"
    AVERAGE_SHAP = "average_shap"
    FULL_SHAP = "full_shap"
    TREES = "trees"


class Collection:
    """A collection as a script configures it: ``get_collection`` of a hook returns one.

    include_regex: patterns of names, besides those that a built-in collection has.
    tensor_names: names that belong to it, too.
    reduction_config, save_config: in place of the hook's. A ``save_config`` may be a dict by mode.
    save_histogram: has no effect.
    """

    def __init__(
        self,
        name: str,
        include_regex: Iterable[str] | None = None,
        tensor_names: Iterable[str] | None = None,
        reduction_config: ReductionConfig | None = None,
        save_config: Any = None,
        save_histogram: bool = True,
    ) -> None:
        self.name = name
        self.include_regex = list(include_regex or ())
        self.tensor_names = set(tensor_names or ())
        self.reduction_config = reduction_config
        self.save_config = save_config
        self.save_histogram = save_histogram
        self._parts: list[tuple[Any, bool, bool]] = []

    @property
    def save_config(self) -> SaveConfig | None:
        return self._save_config

    @save_config.setter
    def save_config(self, config: Any) -> None:
        self._save_config = None if config is None else SaveConfig.parse(config)

    def include(self, t: str | Iterable[str]) -> None:
        """Add a pattern, or several. Raises TypeError for what is none."""
        patterns = [t] if isinstance(t, str) else list(t)
        if not all(isinstance(each, str) for each in patterns):
            raise TypeError(f"{t!r:.200} is neither a pattern nor a list of them")
        self.include_regex += patterns

    def add_tensor_name(self, tname: str) -> None:
        self.tensor_names.add(tname)

    def add_module_tensors(self, module: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add what goes into a module, or a block, of the model, and what comes out of it."""
        self._parts.append((module, inputs, outputs))

    add_block_tensors = add_module_tensors

    @property
    def modules(self) -> dict[Any, tuple[bool, bool]]:
        """The modules that were added: whether with their inputs, and with their outputs."""
        return {module: (inputs, outputs) for module, inputs, outputs in self._parts}

    def __repr__(self) -> str:
        return f"Collection({self.name!r})"
