"""Makes the page of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import msgspec
import numpy as np

from tocsin.evaluation import Checkpoint, Trace, check, document, state_of
from tocsin.model import RuleStatus
from tocsin.report.boosted import boosted_of
from tocsin.report.cards import cards_of
from tocsin.report.curves import curves_of, traced_curves
from tocsin.report.fan import fans_of
from tocsin.report.heat import heats_of
from tocsin.report.history import History, OnFile
from tocsin.report.machine import machine_beside
from tocsin.report.machine_parts import Machine, StepTrace
from tocsin.report.page import SCHEMA, Other, Page, Quality
from tocsin.report.parts import Alert, Curve, Headline, Heat, Run, Steps
from tocsin.report.step_trace import newest_trace
from tocsin.report.verdict import Document, fired, headline
from tocsin.tensors import Storage, is_machine_run
from tocsin.watch import Watch


def report_on(
    storage: Storage,
    watch: Watch | None = None,
    *,
    now: Callable[[], float] = time.time,
    on_step: Callable[[int], None] = lambda step: None,
    on_file: OnFile = lambda done, total: None,
) -> Page:
    """Return the page of a run: evaluates it from its first step on, as ``check`` does, and reads
    it."""
    trace, history = Trace(), History(storage)
    checkpoint, _ = check(storage, watch, now=now, on_step=on_step, on_verdict=trace.add)
    history.refresh(on_file)
    made, machine = datetime.fromtimestamp(now(), UTC), machine_beside(storage, now)
    recorded = newest_trace(storage)
    return page_of(checkpoint, trace, history, made=made, machine=machine, step_trace=recorded)


def page_of(
    checkpoint: Checkpoint,
    trace: Trace,
    history: History,
    *,
    made: datetime,
    planned: int | None = None,
    alerts: Sequence[Alert] = (),
    machine: Machine | None = None,
    step_trace: StepTrace | None = None,
) -> Page:
    """Return the page of a run as far as the checkpoint has evaluated it.

    ``trace`` is from the same evaluation; ``history`` was refreshed after it. The losses are the
    trace's if the history left out files. ``planned`` is how many steps the training is to have, if
    its hook does not say. ``machine`` are the machines of the training, if they were watched, and
    ``step_trace`` is what was recorded of some steps, if it was asked for.
    """
    found = document(checkpoint)
    last = -1 if checkpoint.last_step is None else checkpoint.last_step
    marks = _marks(found)
    whole = history.every == 1
    losses = curves_of(history, last, marks) if whole else traced_curves(trace, marks)
    heats, boosted = heats_of(history, last), boosted_of(history, last)
    violations = (rule["FirstViolation"] or {} for rule in fired(found))
    suspects = [violation.get("tensor") for violation in violations]
    return Page(
        schema=SCHEMA,
        made=made.isoformat(timespec="seconds"),
        tocsin=_version(),
        run=_run(checkpoint, found, history, planned or history.planned),
        verdict=_with_machine(headline(found), machine),
        losses=losses,
        rules=cards_of(found, trace, marks),
        alerts=list(alerts),
        heats=heats,
        fans=fans_of(history, last, [name for name in suspects if name]),
        boosted=boosted,
        quality=_quality(checkpoint, history),
        missing=_missing(found, losses, heats, trace, has_network=boosted is None),
        others=[],
        machine=machine,
        step_trace=step_trace,
    )


def compared(pages: Sequence[Page]) -> Page:
    """Return the first page with the others to compare with."""
    others = [Other(page.run, page.verdict, page.losses, page.rules) for page in pages[1:]]
    return msgspec.structs.replace(pages[0], others=others)


def _with_machine(verdict: Headline, machine: Machine | None) -> Headline:
    """Return the verdict of a training with the rules that fired about its machines."""
    rules = machine.rules if machine else []
    if not (names := [each.name for each in rules if each.status == RuleStatus.ISSUES_FOUND]):
        return verdict
    detail = f"{verdict.detail} The machine has issues: {', '.join(names)}.".strip()
    return msgspec.structs.replace(verdict, detail=detail)


def _marks(found: Document) -> list[int]:
    """The steps at which rules fired for the first time."""
    steps = (rule["FirstViolation"] for rule in fired(found))
    return sorted({step["step"] for step in steps if step is not None})


def _run(checkpoint: Checkpoint, found: Document, history: History, planned: int | None) -> Run:
    began, ended = checkpoint.first_time, checkpoint.last_time
    stopped = checkpoint.ended == "silence"
    return Run(
        url=found["run"],
        job=found["job"],
        run_id=checkpoint.run_id,
        state="stopped" if stopped else state_of(found),
        workers=found["workers"],
        steps=Steps(**found["steps"]),
        planned=planned,
        tensors=len(history.names),
        began=_time(began),
        ended=_time(ended) if began is not None else None,
        minutes=is_machine_run(found["run"]),
    )


def _time(seconds: float | None) -> str | None:
    return (
        None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat("T", "seconds")
    )


def _quality(checkpoint: Checkpoint, history: History) -> Quality:
    steps = history.steps
    interval = float(np.median(np.diff(steps))) if len(steps) > 1 else None
    return Quality(
        files=checkpoint.files if history.every > 1 else history.files,
        steps=checkpoint.steps if history.every > 1 else len(steps),
        interval=None if interval is None else interval / history.every,
        lost=checkpoint.lost_steps,
        late=checkpoint.late_files,
        refused=max(checkpoint.refused_files, history.unreadable),
        unreadable=checkpoint.unreadable,
        missing_workers=checkpoint.missing_workers,
        problems=[*checkpoint.problems, *checkpoint.refused.items()],
        thinned=history.thinned,
    )


def _missing(
    found: Document,
    losses: Sequence[Curve],
    heats: dict[str, Heat],
    trace: Trace,
    *,
    has_network: bool,
) -> list[str]:
    """Return sentences on missing data and how to capture it."""
    says = []
    has_loss = any(curve.kind == "loss" for curve in losses)
    trains = not is_machine_run(found["run"])
    if not found["steps"]["evaluated"]:
        says.append(
            "No step is complete yet. Make the report again once the training has saved one."
        )
    if trains and not has_loss:
        says.append(
            "No loss was captured: name it with hook.record_loss(loss) or "
            'hook.save("loss", loss, collection="losses").'
        )
    if trains and has_network and not any(name in heats for name in ("gradient", "weight")):
        says.append(
            "No gradients or weights were captured: there is no map of the network. "
            "A hook with the model captures them."
        )
    if "dead" not in heats and "saturated" not in heats and heats:
        says.append("No activity of units was captured: there is no map of dead units.")
    if found["steps"]["evaluated"] == 1:
        says.append("There is only one step, and a curve needs two.")
    if not found["finished"] and found["steps"]["evaluated"]:
        says.append("The run has not ended: this is its state when the report was made.")
    failed = [r for r in found["rules"] if r["RuleEvaluationStatus"] == RuleStatus.ERROR]
    if failed:
        names = ", ".join(rule["RuleConfigurationName"] for rule in failed)
        says.append(f"In Error and no longer judged: {names}.")
    if not trace.lanes and found["steps"]["evaluated"]:
        says.append("The verdicts of single steps were not kept: there are no lanes.")
    return says


def _version() -> str:
    try:
        return version("tocsin")
    except PackageNotFoundError:  # in Lambda the layer has no metadata
        return "?"
