"""One tensor of a trial, over all steps and workers."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Protocol

from numpy.typing import NDArray

from tocsin.model import Mode, TensorSummary
from tocsin.tensors import NotFound, Unreadable, collections_key, parse_collections_key
from tocsin.trial.catalog import Catalog
from tocsin.trial.exceptions import (
    InvalidWorker,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)
from tocsin.trial.reduce import reduce_value, summary_reductions
from tocsin.trial.state import StepState
from tocsin.trial.table import Member, Place, StepFile
from tocsin.trial.values import Values

Saved = tuple[StepFile, Member]
"""One worker's part of a tensor at one step: the file, and the entries in it."""


class KnowsSteps(Protocol):
    """The part of a trial that its tensors need."""

    def steps(self, mode: Mode = ..., show_incomplete_steps: bool = ...) -> list[int]: ...

    def maybe_refresh(self) -> None: ...


class TrialTensor:
    """One tensor, as it was saved.

    A step is a number of ``mode``, by default a global one. ``worker=None`` selects the first
    worker, by name, that has the tensor. All methods with a step may raise StepUnavailable,
    StepNotYetAvailable, TensorUnavailableForStep and InvalidWorker.
    """

    def __init__(self, name: str, trial: KnowsSteps, catalog: Catalog, reader: Values) -> None:
        self.name = name
        self.trial = trial
        self._catalog = catalog
        self._reader = reader

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.trial!r})"

    @property
    def original_name(self) -> str | None:
        """The name of the tensor in the framework, if it was saved."""
        for step in self.steps(show_incomplete_steps=True):
            for file, member in self._saved(step, Mode.GLOBAL, None):
                if (original := file.original_name(member.position)) is not None:
                    return original
        return None

    def steps(self, mode: Mode = Mode.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps at which any worker saved the tensor, its shape or a reduction of it."""
        files, name = self._catalog.files, self.name
        return [
            step
            for step in self.trial.steps(mode, show_incomplete_steps)
            if any(name in file.layout.members for file in files(step, mode))
        ]

    def prev_steps(self, step: int, n: int | None = None, mode: Mode = Mode.GLOBAL) -> list[int]:
        """Return the last ``n`` steps (by default all) up to and including ``step``."""
        steps = self.steps(mode)
        before = steps[: bisect_right(steps, step)]
        return before[-n:] if n else before

    def workers(self, step_num: int, mode: Mode = Mode.GLOBAL) -> list[str]:
        """Return the workers that saved the tensor at a step, in the order of their names."""
        saved = self._look(step_num, mode, None)
        if not saved:
            raise TensorUnavailableForStep(self.name, step_num, mode)
        return [file.worker for file, _ in saved]

    def value(
        self, step_num: int, mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> NDArray[Any]:
        """Return a writable copy of the value at a step. Raises Unreadable for a damaged record."""
        return self._read(*self._place(step_num, mode, worker), step_num, mode)

    def check_value(
        self, step_num: int, mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> None:
        """Raise the error of ``value`` if a step has no value, without reading the value."""
        self._place(step_num, mode, worker)

    def values(
        self, mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> dict[int, NDArray[Any]]:
        """Step -> value, at all complete steps; those of ``worker`` at the steps that it has."""
        places = {step: self._place(step, mode, worker) for step in self._steps(mode, worker)}
        values = {}
        for step, value in zip(places, self._reader.read_many([*places.values()]), strict=True):
            if isinstance(value, NotFound):
                raise self._gone(value, step, mode)
            if isinstance(value, Unreadable):
                raise value
            values[step] = value
        return values

    def shape(
        self, step_num: int, mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> tuple[int, ...]:
        """Return the shape at a step; the value is read only where the shape was not saved."""
        for file, member in self._saved(step_num, mode, worker):
            if (shape := file.shape(member.position)) is not None:
                return shape
        try:
            return self.value(step_num, mode, worker).shape
        except TensorUnavailableForStep:
            raise ShapeUnavailableForStep(self.name, step_num, mode) from None

    def shapes(
        self, mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> dict[int, tuple[int, ...]]:
        """Step -> shape, at all complete steps; those of ``worker`` at the steps that it has."""
        return {step: self.shape(step, mode, worker) for step in self._steps(mode, worker)}

    def summary(
        self, step_num: int, mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> TensorSummary | None:
        """Return the summary that a Tocsin hook saved at a step, or None if it saved no summary."""
        saved = self._saved(step_num, mode, worker)
        summaries = (file.summary(member.position) for file, member in saved)
        return next((summary for summary in summaries if summary is not None), None)

    def reduction_value(
        self,
        step_num: int,
        reduction_name: str,
        mode: Mode = Mode.GLOBAL,
        worker: str | None = None,
        abs: bool = False,  # noqa: A002 - the name that people know
    ) -> Any:
        """Return a reduction at a step: ``min``, ``max``, ``mean``, ``std``, ``variance``, ``sum``,
        ``prod``, ``l1`` or ``l2``, with ``abs`` of the absolute values.

        Uses the stored reduction, otherwise the value, otherwise the summary, which covers finite
        elements only.
        """
        key = (reduction_name, abs)
        saved = self._saved(step_num, mode, worker)
        for file, member in saved:
            position = member.reductions.get(key)
            if file.has_record(position):
                return self._read(file, position, step_num, mode)
        if any(file.has_record(member.position) for file, member in saved):
            return reduce_value(
                reduction_name, self.value(step_num, mode, worker), absolute=bool(abs)
            )
        for file, member in saved:
            summary = file.summary(member.position)
            if summary is not None and key in (known := summary_reductions(summary)):
                return known[key]
        raise TensorUnavailableForStep(
            f"{'abs_' * abs}{reduction_name} of {self.name}", step_num, mode
        )

    def reduction_values(
        self, step_num: int, mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> dict[tuple[str, bool], Any]:
        """``(reduction, abs)`` -> value: the stored ones, else what the summary knows."""
        for file, member in self._saved(step_num, mode, worker):
            if member.reductions:
                return {
                    key: self._read(file, position, step_num, mode)
                    for key, position in member.reductions.items()
                    if file.has_record(position)
                }
            if (summary := file.summary(member.position)) is not None:
                return dict(summary_reductions(summary))
        return {}

    def _place(self, step_num: int, mode: Mode, worker: str | None) -> Place:
        """The place of a step's value."""
        if worker is None:  # the short way, for nearly all
            for file in self._catalog.files(step_num, mode):
                if (position := file.layout.records.get(self.name)) is not None:
                    return file, position
        saved = self._saved(step_num, mode, worker)
        for file, member in saved:
            position = member.position
            if file.has_record(position):
                return file, position
        reduced = any(m.reductions or file.summary(m.position) for file, m in saved)
        raise TensorUnavailableForStep(self.name, step_num, mode, reduced)

    def _saved(self, step_num: int, mode: Mode, worker: str | None) -> list[Saved]:
        """The parts that the workers, or the one named, saved at a step: at least one."""
        saved = self._look(step_num, mode, worker)
        if saved:
            return saved
        self.trial.maybe_refresh()
        saved = self._look(step_num, mode, worker)
        if saved:
            return saved
        if worker is not None and self._look(step_num, mode, None):
            raise InvalidWorker(worker)
        state = self._catalog.state(step_num, mode)
        if state is StepState.UNAVAILABLE:
            raise StepUnavailable(step_num, mode)
        if state is StepState.NOT_YET_AVAILABLE:
            raise StepNotYetAvailable(step_num, mode)
        raise TensorUnavailableForStep(self.name, step_num, mode)

    def _look(self, step_num: int, mode: Mode, worker: str | None) -> list[Saved]:
        files = self._catalog.files(step_num, mode)
        name = self.name
        if worker is not None:
            names = (worker, _as_read(worker))
            files = tuple(file for file in files if file.worker in names)
        return [
            (file, member)
            for file in files
            if (member := file.layout.members.get(name)) is not None
        ]

    def _steps(self, mode: Mode, worker: str | None) -> list[int]:
        """The complete steps, or those of them that a worker has. Raises InvalidWorker."""
        steps = self.steps(mode)
        if worker is None:
            return steps
        own = [step for step in steps if self._look(step, mode, worker)]
        if steps and not own:
            raise InvalidWorker(worker)
        return own

    def _read(self, file: StepFile, position: int, step_num: int, mode: Mode) -> NDArray[Any]:
        try:
            return self._reader.read(file, position)
        except NotFound as error:
            raise self._gone(error, step_num, mode) from None

    def _gone(self, error: NotFound, step_num: int, mode: Mode) -> TensorUnavailableForStep:
        reason = f"its event file {error.key} is missing"
        return TensorUnavailableForStep(self.name, step_num, mode, reason=reason)


def _as_read(worker: str) -> str:
    """A worker under the name that its files give it: a device path loses ``_`` and ``-``."""
    try:
        return parse_collections_key(collections_key(worker)) or worker
    except ValueError:
        return worker
