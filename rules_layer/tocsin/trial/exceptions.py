"""The exceptions of a trial, under the names that smdebug's users know."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.model import Mode


class NotARun(ValueError):
    """The path is not a run."""


class TrialError(Exception):
    """Base of all errors of a trial about steps, tensors and workers."""


class StepUnavailable(TrialError):
    """The step was not saved and will not be saved."""

    def __init__(self, step: int, mode: Mode) -> None:
        super().__init__(f"Step {step} of mode {mode.name} is not available as it was not saved")
        self.step = step
        self.mode = mode


class StepNotYetAvailable(TrialError):
    """The step is not saved yet: the job is still running."""

    def __init__(self, step: int, mode: Mode, waited: float | None = None) -> None:
        after = "" if waited is None else f" after {waited:g} s"
        super().__init__(f"Step {step} of mode {mode.name} not yet available{after}")
        self.step = step
        self.mode = mode


class NoMoreData(TrialError):
    """The job has ended before the step."""

    def __init__(self, step: int, mode: Mode, last_step: int) -> None:
        super().__init__(
            f"Looking for step {step} of mode {mode.name} and reached end of training. "
            f"Max step available is {last_step}"
        )
        self.step = step
        self.mode = mode
        self.last_step = last_step


class TensorUnavailable(TrialError):
    """No step has a tensor of this name. ``near`` are similar names that the run has, else
    ``known`` are its names.
    """

    def __init__(self, tname: str, near: Sequence[str] = (), known: Sequence[str] = ()) -> None:
        hint = f" Did you mean {' or '.join(near)}?" if near else listed(known)
        super().__init__(f"Tensor {tname} was not saved.{hint}")
        self.tname = tname


def listed(known: Sequence[str]) -> str:
    """`` The run has a, b and 9 more.``"""
    more = f" and {len(known) - 5} more" if len(known) > 5 else ""
    return f" The run has {', '.join(known[:5])}{more}." if known else ""


class TensorUnavailableForStep(TrialError):
    """The step exists, but the value of this tensor was not saved."""

    def __init__(
        self,
        tname: str,
        step: int,
        mode: Mode = Mode.GLOBAL,
        has_reductions: bool = False,
        reason: str = "it was not saved",
    ) -> None:
        hint = " Its reductions or its summary were: ask for those." if has_reductions else ""
        super().__init__(
            f"Value for tensor {tname} is not available for step {step} "
            f"with mode {mode.name} as {reason}.{hint}"
        )
        self.tname = tname
        self.step = step
        self.mode = mode
        self.has_reductions = has_reductions


class ShapeUnavailableForStep(TrialError):
    """The step exists, but neither the shape nor the value of this tensor was saved."""

    def __init__(self, tname: str, step: int, mode: Mode = Mode.GLOBAL) -> None:
        super().__init__(
            f"Shape for tensor {tname} is not available for step {step} "
            f"with mode {mode.name} as it was not saved."
        )
        self.tname = tname
        self.step = step
        self.mode = mode


class InvalidWorker(TrialError):
    """The worker has not saved this tensor or step."""

    def __init__(self, worker: str) -> None:
        super().__init__(f"Invalid Worker: {worker}")
        self.worker = worker


class MissingCollectionFiles(TrialError):
    """The job has ended, and not all of its workers have written a collections file."""

    def __init__(self, url: str = "", found: int = 0, expected: int | None = None) -> None:
        of = "" if expected is None else f" of {expected}"
        super().__init__(
            f"The job of run {url} has ended with {found}{of} collections files. "
            "To read what is there: create_trial(…, partial=True)"
        )


class RuleEvaluationConditionMet(TrialError):
    """The condition of a rule is met at a step; with ``end_of_rule`` it wants no more steps."""

    def __init__(self, rule_name: str, step: int, end_of_rule: bool = False) -> None:
        super().__init__(
            f"Evaluation of the rule {rule_name} at step {step} resulted in the condition being met"
        )
        self.rule_name = rule_name
        self.step = step
        self.end_of_rule = end_of_rule
