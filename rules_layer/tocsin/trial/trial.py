"""A trial: one run, as people read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from numpy.typing import NDArray

from tocsin.model import Mode
from tocsin.tensors import Collection, IndexFile, search
from tocsin.trial.catalog import Catalog, ModeSteps
from tocsin.trial.exceptions import (
    NoMoreData,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    listed,
)
from tocsin.trial.feed import Clock, RunFeed
from tocsin.trial.frame import dataframe
from tocsin.trial.plot import fired_steps, plot
from tocsin.trial.refreshing import refresh
from tocsin.trial.rows import rows
from tocsin.trial.state import StepState
from tocsin.trial.tensor import TrialTensor
from tocsin.trial.values import Values

_POLL = 1.0  # s


class Trial:
    """A run, also while its job is running: made by ``create_trial``.

    A trial checks for new files at each call, unless the run has ended or ``dynamic_refresh`` is
    off (see ``no_refresh``). Steps are numbers of ``mode``, by default global ones.
    """

    def __init__(
        self, path: str, name: str, catalog: Catalog, feed: RunFeed, reader: Values, clock: Clock
    ) -> None:
        self.path = path
        self.name = name
        self.dynamic_refresh = True
        self.reporter: Callable[[str], object] | None = None  # makes the report of a run's path
        self._catalog = catalog
        self._feed = feed
        self._reader = reader
        self._clock = clock
        self._tensors: dict[str, TrialTensor] = {}

    def __repr__(self) -> str:
        return f"Trial({self.path!r})"

    @property
    def loaded_all_steps(self) -> bool:
        """Return whether the run has ended and all of it is known."""
        self.maybe_refresh()
        return self._catalog.finished

    def job_finished(self) -> bool:
        """Return whether the run has ended: ``loaded_all_steps``, as smdebug's profiler trial names
        it."""
        return self.loaded_all_steps

    @property
    def last_complete_step(self) -> int:
        """The greatest global step that all workers have saved; -1 before the first."""
        return self._catalog.last_complete

    @property
    def num_workers(self) -> int:
        """Return how many workers the job has; 0 while no collections file says so."""
        return self._feed.num_workers or 0

    @property
    def damaged(self) -> Mapping[str, str]:
        """Key -> reason, for each index and collections file that cannot be used."""
        self.maybe_refresh()
        return dict(self._feed.damaged)

    def maybe_refresh(self) -> None:
        """Read new files, as every method does automatically."""
        if self.dynamic_refresh:
            self._feed.refresh()

    def refresh(self) -> None:
        """Read new files at once, also of a run that has ended."""
        self._feed.refresh(force=True)

    def workers(self) -> list[str]:
        """Return the workers that have written anything, in the order of their names."""
        self.maybe_refresh()
        declared = self._feed.collections.workers if self._feed.collections else ()
        return sorted({*declared, *self._catalog.workers})

    # Private in smdebug, and yet in published rules.

    @property
    def worker_set(self) -> set[str]:
        """The workers that have written anything."""
        return set(self.workers())

    @property
    def _global_to_mode(self) -> Mapping[int, tuple[Mode, int]]:
        """Global step → its mode and its number there."""
        self.maybe_refresh()
        return ModeSteps(self._catalog)

    @property
    def _mode_to_global(self) -> Mapping[Mode, Mapping[int, int]]:
        """Mode → the mode's own step → global step."""
        self.maybe_refresh()
        return self._catalog.global_steps

    def steps(self, mode: Mode = Mode.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps that all workers have finished, or that any worker has saved."""
        self.maybe_refresh()
        known = self._catalog.steps(mode)
        return list(known) if show_incomplete_steps else self._catalog.complete_steps(mode)

    def modes(self) -> list[Mode]:
        """Return the modes that steps were saved in, without GLOBAL."""
        self.maybe_refresh()
        return self._catalog.modes()

    def mode(self, global_step: int) -> Mode | None:
        """Return the mode of a global step, None for a step that was not saved."""
        return self.mode_modestep(global_step)[0]

    def mode_step(self, global_step: int) -> int | None:
        """Return the number of a global step in its own mode, None for a step that was not
        saved."""
        return self.mode_modestep(global_step)[1]

    def mode_modestep(self, global_step: int) -> tuple[Mode, int] | tuple[None, None]:
        """Return both of them."""
        if self._catalog.mode_step(global_step) is None:
            self.maybe_refresh()
        return self._catalog.mode_step(global_step) or (None, None)

    def global_step(self, mode: Mode, mode_step: int) -> int | None:
        """Return the global step of a mode's own one, None for a step that was not saved."""
        if self._catalog.global_step(mode, mode_step) is None:
            self.maybe_refresh()
        return self._catalog.global_step(mode, mode_step)

    def has_passed_step(self, step: int, mode: Mode = Mode.GLOBAL) -> StepState:
        """Return whether a step was saved, may still be, or will not be."""
        self.maybe_refresh()
        return self._catalog.state(step, mode)

    def wait_for_steps(
        self,
        required_steps: Iterable[int],
        mode: Mode = Mode.GLOBAL,
        timeout: float | None = None,
    ) -> None:
        """Return when all of these steps are complete.

        Raises StepUnavailable for a step that was not saved, NoMoreData for a step after the end of
        the run, and StepNotYetAvailable after ``timeout`` seconds. Without a timeout, it waits
        without limit, also for a job that has died.
        """
        begin = self._clock.monotonic()
        with refresh(self):
            for step in required_steps:
                while (state := self.has_passed_step(step, mode)) is not StepState.AVAILABLE:
                    if state is StepState.UNAVAILABLE:
                        raise self._never(step, mode)
                    waited = self._clock.monotonic() - begin
                    if timeout is not None and waited >= timeout:
                        raise StepNotYetAvailable(step, mode, timeout)
                    left = _POLL if timeout is None else timeout - waited
                    self._clock.sleep(min(_POLL, left))

    def _never(self, step: int, mode: Mode) -> StepUnavailable | NoMoreData:
        last = max(self._catalog.steps(mode), default=-1)
        if self._catalog.finished and step > last:
            return NoMoreData(step, mode, last)
        return StepUnavailable(step, mode)

    def index_files(self, global_step: int) -> list[IndexFile]:
        """Return the index files of a global step, in the order of workers, without roles and
        kinds."""
        return [file.index() for file in self._catalog.files(global_step)]

    def has_tensor(self, tname: str) -> bool:
        """Return whether a tensor, or a reduction or shape of it, was saved at any step so far."""
        if not self._catalog.has(tname):
            self.maybe_refresh()
        return self._catalog.has(tname)

    def tensor(self, tname: str) -> TrialTensor:
        """Return a tensor by name. Raises TensorUnavailable.

        ``loss`` finds the only loss of a run, whatever its name, for example
        ``CrossEntropyLoss_output_0``.
        """
        tensor = self._tensors.get(tname)
        if tensor is None:
            if not self.has_tensor(tname):
                losses = self.tensor_names(collection="losses") if tname == "loss" else []
                if len(losses) != 1:
                    known = self.tensor_names()
                    near = losses or get_close_matches(tname, known, n=3)
                    raise TensorUnavailable(tname, near[:3], known)
                return self.tensor(losses[0])
            tensor = self._tensors[tname] = TrialTensor(tname, self, self._catalog, self._reader)
        return tensor

    def tensor_names(
        self,
        show_prefixed_tensors: bool = False,
        *,
        step: int | None = None,
        mode: Mode = Mode.GLOBAL,
        regex: str | Sequence[str] | None = None,
        collection: str | Collection | None = None,
    ) -> list[str]:
        """Return the names of tensors, in order: of a step, of a mode, that match a pattern
        anywhere (or one of several), or of a collection. Raises BadPattern.
        """
        if regex is not None and collection is not None:
            raise ValueError("name a regex or a collection, not both")
        self.maybe_refresh()
        if step is None:
            names = self._catalog.names(mode)
        else:
            files = self._catalog.files(step, mode)
            names = {name for file in files for name in file.layout.members}
        if collection is not None:
            known = self.collection(collection) if isinstance(collection, str) else collection
            return sorted(name for name in names if known.contains(name))
        if regex is not None:
            patterns = [regex] if isinstance(regex, str) else regex
            return sorted(n for n in names if any(search(pattern, n) for pattern in patterns))
        return sorted(names)

    def collections(self) -> dict[str, Collection]:
        """Return the collections by name, joined over all workers."""
        self.maybe_refresh()
        return dict(self._feed.collections.collections) if self._feed.collections else {}

    def collection(self, coll_name: str) -> Collection:
        """Return a collection by name, or an empty one."""
        return self.collections().get(coll_name) or Collection(coll_name)

    def inputs(self, step: int, mode: Mode = Mode.GLOBAL) -> list[NDArray[Any]]:
        """Return the values of collection ``inputs`` at a step, in the order of their numbers."""
        return self._numbered(step, mode, collection="inputs")

    def labels(self, step: int, mode: Mode = Mode.GLOBAL) -> list[NDArray[Any]]:
        """Return the values of the tensors named ``labels`` at a step, in the order of their
        numbers.
        """
        return self._numbered(step, mode, regex="labels")

    def predictions(self, step: int, mode: Mode = Mode.GLOBAL) -> list[NDArray[Any]]:
        """Return the values of the tensors named ``predictions`` at a step, in the order of their
        numbers.
        """
        return self._numbered(step, mode, regex="predictions")

    def _numbered(
        self, step: int, mode: Mode, regex: str | None = None, collection: str | None = None
    ) -> list[NDArray[Any]]:
        names = self.tensor_names(step=step, mode=mode, regex=regex, collection=collection)
        return [self.tensor(name).value(step, mode) for name in sorted(names, key=_number)]

    def dataframe(
        self,
        regex: str | Sequence[str] | None = None,
        *,
        mode: Mode = Mode.GLOBAL,
        worker: str | None = None,
    ) -> Any:
        """Scalars and summaries as a DataFrame, one row for each tensor, step and worker.

        Columns: ``step`` (global), ``mode``, ``mode_step``, ``worker``, ``tensor``, ``value`` of
        single numbers, and the fields of TensorSummary. Needs pandas.
        """
        return dataframe(self.rows(self.tensor_names(regex=regex, mode=mode), mode, worker))

    def rows(
        self, names: Iterable[str], mode: Mode = Mode.GLOBAL, worker: str | None = None
    ) -> list[dict[str, Any]]:
        """Scalars and summaries of tensors, as the rows of ``dataframe``."""
        return rows(self._catalog, self._reader, set(names), mode, worker)

    def plot(
        self,
        regex: str | Sequence[str] | None = None,
        *,
        y: str | None = None,
        mode: Mode = Mode.GLOBAL,
        worker: str | None = None,
        collection: str | Collection | None = None,
        title: str | None = None,
        log: bool = False,
        fired: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return an Altair chart: lines of ``y``, any column of ``dataframe``, over the steps.

        ``y`` is ``value`` by default, or ``mean`` where there are only summaries. ``collection``
        selects instead of ``regex``. ``title`` is by default the name of the job. ``log``: a
        logarithmic scale, on which numbers that are not positive are gaps. ``fired``: rules and
        the steps at which they fired, as a mapping or as the document of ``tocsin check --json``;
        each is marked by a line. Needs Altair.
        """
        names = self.tensor_names(regex=regex, collection=collection, mode=mode)
        if not names and (known := self.tensor_names(mode=mode)):
            wanted = f"collection {collection!r}" if regex is None else f"regex {regex!r}"
            raise ValueError(f"nothing to plot: {wanted} selects no tensor.{listed(known)}")
        by_mode = mode is not Mode.GLOBAL
        return plot(
            self.rows(names, mode, worker),
            "mode_step" if by_mode else "step",
            y,
            title=self.name if title is None else title,
            log=log,
            fired=fired_steps(fired or {}, mode.name if by_mode else None),
        )

    def report(self) -> object:
        """Return the report of the run, which a notebook shows: ``tocsin report`` in a cell.

        Evaluates the rules over the run as it is now. Raises ValueError unless the run was opened
        with ``tocsin.create_trial``.
        """
        if self.reporter is None:
            raise ValueError("this trial shows no report: open the run with tocsin.create_trial")
        return self.reporter(self.path)


def _number(name: str) -> tuple[int, str]:
    """Tensors end in ``_0``, ``_1`` … where there are several."""
    match = re.search(r"_(\d+)$", name)
    return int(match[1]) if match else 0, name
