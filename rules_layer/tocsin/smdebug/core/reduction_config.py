"""The numbers that are saved in place of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ALLOWED_NORMS", "ALLOWED_REDUCTIONS", "ReductionConfig"]

ALLOWED_REDUCTIONS = ["min", "max", "mean", "std", "variance", "sum", "prod"]
ALLOWED_NORMS = ["l1", "l2"]


@dataclass
class ReductionConfig:
    """The reductions and norms of a tensor that are saved, and whether its values are, too.

    Raises ValueError for a reduction that there is not.
    """

    reductions: Sequence[str] | None = None
    abs_reductions: Sequence[str] | None = None
    norms: Sequence[str] | None = None
    abs_norms: Sequence[str] | None = None
    save_raw_tensor: bool = False
    save_shape: bool = False
    names: tuple[str, ...] = field(init=False, repr=False)
    """All of them in one list, as a watch file has them: ``mean``, ``abs_l2``."""

    def __post_init__(self) -> None:
        names: list[str] = []
        for prefix, given, allowed in (
            ("", self.reductions, ALLOWED_REDUCTIONS),
            ("abs_", self.abs_reductions, ALLOWED_REDUCTIONS),
            ("", self.norms, ALLOWED_NORMS),
            ("abs_", self.abs_norms, ALLOWED_NORMS),
        ):
            for name in given or ():
                if name not in allowed:
                    raise ValueError(f"{name!r:.100} is not one of {', '.join(allowed)}")
                names.append(prefix + name)
        self.names = tuple(names)

    @classmethod
    def from_dict(cls, params: Mapping[str, Any] | None) -> ReductionConfig | None:
        """Return one of the keys of a CollectionConfiguration; None for None."""
        if params is None:
            return None
        given = [each.strip() for each in str(params.get("reductions", "")).split(",")]
        names = [each.removesuffix("_norm") for each in given if each]
        plain = [each for each in names if not each.startswith("abs_")]
        absolute = [each.removeprefix("abs_") for each in names if each.startswith("abs_")]
        return cls(
            [each for each in plain if each not in ALLOWED_NORMS],
            [each for each in absolute if each not in ALLOWED_NORMS],
            [each for each in plain if each in ALLOWED_NORMS],
            [each for each in absolute if each in ALLOWED_NORMS],
            save_raw_tensor=bool(params.get("save_raw_tensor", False)),
            save_shape=bool(params.get("save_shape", False)),
        )
