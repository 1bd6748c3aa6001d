"""The machines of a training as the page shows them: findings, times of steps, use of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import numpy as np

from tocsin.evaluation import Checkpoint, Trace, check, document
from tocsin.model import Mode
from tocsin.profile import open_run
from tocsin.report.cards import cards_of
from tocsin.report.devices import utilization_of
from tocsin.report.machine_parts import Machine, Shares
from tocsin.report.metrics import statistics_of
from tocsin.report.minutes import STEPS, length_of, read_minutes, samples_of, total_of
from tocsin.report.parts import Bars, Lines, Numbers, RuleCard
from tocsin.report.profile import profile_of
from tocsin.report.thin import Array, digit, digits
from tocsin.report.verdict import Document, headline
from tocsin.tensors import (
    IndexFile,
    NotFound,
    Storage,
    index_objects,
    is_machine_run,
    machine_run,
    step_text,
)

_BINS = 12
_EVALUATIONS = (f"step/{Mode.EVAL.name}", f"step/{Mode.PREDICT.name}")


def machine_beside(storage: Storage, now: Callable[[], float]) -> Machine | None:
    """Return the machines of a run, evaluated as ``check`` does it; None where none was watched."""
    try:
        own = is_machine_run(storage.url)
        beside = storage if own else open_run(machine_run(storage.url))
        if next(index_objects(beside), None) is None:
            return None
        return machine_of(beside, document(check(beside, now=now)[0]), own=own)
    except (NotFound, PermissionError, ValueError):  # it costs the page this section only
        return None


def stored_machine(
    run: str, load: Callable[[str], Checkpoint], storage: Callable[[str], Storage]
) -> Machine | None:
    """Return the machines of a run that a deployment evaluates, as far as it has evaluated them."""
    own = is_machine_run(run)
    url = run if own else machine_run(run)
    with suppress(NotFound, PermissionError, ValueError):
        checkpoint = load(url)
        if checkpoint.steps:
            return machine_of(storage(url), document(checkpoint), own=own)
    return None


def machine_of(storage: Storage, found: Document, *, own: bool = False) -> Machine | None:
    """Return the machines as ``found``, the document of their run, judges them; None without a
    minute.

    own: whether the page is that of the machine run itself, and shows its rules already.
    """
    minutes, every = read_minutes(storage)
    if not minutes:
        return None
    first = min(minute.step for minute in minutes)
    shares = list(_shares(minutes))
    durations, weights = _durations(minutes)
    clock = step_text(storage.url, first) != f"step {first}"
    return Machine(
        url=storage.url,
        nodes=sorted({minute.worker for minute in minutes}),
        minutes=len({minute.step for minute in minutes}),
        first=first,
        began=datetime.fromtimestamp(60 * first, UTC).isoformat() if clock else None,
        every=every,
        sentence=_sentence(shares, durations, weights),
        verdict=headline(found),
        rules=[] if own else [_brief(card) for card in cards_of(found, Trace(), [])],
        shares=shares,
        steps=_timeline(minutes, first),
        durations=_histogram(durations, weights),
        utilization=utilization_of(minutes, first),
        statistics=statistics_of(minutes, durations, weights),
        profile=profile_of(minutes),
    )


def _brief(card: RuleCard) -> RuleCard:
    """Without what is drawn over the steps of a training."""
    return msgspec.structs.replace(card, spans=[], at=[], series=None)


def _shares(minutes: Sequence[IndexFile]) -> Iterator[Shares]:
    nodes: dict[str, list[IndexFile]] = {}
    for minute in minutes:
        nodes.setdefault(minute.worker, []).append(minute)
    for name in sorted(nodes):
        own = nodes[name]
        measured = sum(length_of(minute) for minute in own)
        steps = _sum(total_of(minute, STEPS) for minute in own)
        forward = _sum(_forward(minute) for minute in own)
        parts = {
            "forward": forward,
            "step": None if steps is None else steps - (forward or 0.0),
            "wait": _sum(total_of(minute, "step/wait") for minute in own),
            "evaluation": _sum(total_of(minute, *_EVALUATIONS) for minute in own),
        }
        spent = sum(seconds for seconds in parts.values() if seconds is not None)
        whole = max(measured, spent) or 1.0
        known = {key: None if s is None else digit(s / whole) for key, s in parts.items()}
        yield Shares(name, round(measured, 3), **known, other=digit(1 - spent / whole) or 0.0)


def _sum(seconds: Iterator[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if known else None


def _forward(minute: IndexFile) -> float | None:
    """The seconds of forward passes: on a GPU only each tenth is timed, and stands for the rest."""
    passes, steps = minute.entry("step/forward"), minute.entry(STEPS)
    if passes is None or passes.summary is None or steps is None or steps.summary is None:
        return None
    count = max(passes.summary.size or 0, steps.summary.size or 0)
    return min(count * (passes.summary.mean or 0.0), total_of(minute, STEPS) or 0.0)


def _durations(minutes: Sequence[IndexFile]) -> tuple[Array, Array]:
    """The durations of training steps in seconds, and how many steps each stands for."""
    seconds, weights = [np.empty(0)], [np.empty(0)]
    for minute in minutes:
        found, entry = samples_of(minute, STEPS), minute.entry(STEPS)
        if found.size and entry is not None and entry.summary is not None:
            seconds.append(found)
            weights.append(np.full(found.size, (entry.summary.size or 0) / found.size))
    return np.concatenate(seconds), np.concatenate(weights)


def _timeline(minutes: Sequence[IndexFile], first: int) -> Lines | None:
    """The median, the 95th percentile and the longest step of each minute, over all machines."""
    by_minute: dict[int, list[Array]] = {}
    for minute in minutes:
        if (found := samples_of(minute, STEPS)).size:
            by_minute.setdefault(minute.step, []).append(found)
    if not by_minute:
        return None
    together = {step: np.concatenate(found) for step, found in sorted(by_minute.items())}
    quantiles = np.array([np.quantile(each, (0.5, 0.95, 1.0)) for each in together.values()])
    series = {
        name: digits(quantiles[:, at])
        for at, name in enumerate(("median", "95th percentile", "longest"))
    }
    x: Numbers = [float(step - first) for step in together]
    return Lines("Step time in seconds, minute by minute", "minutes since the first", x, series)


def _histogram(durations: Array, weights: Array) -> Bars | None:
    """Counts of steps; those beyond the 99.5th percentile share the last bar."""
    if not durations.size:
        return None
    low, high = float(durations.min()), float(np.quantile(durations, 0.995))
    edges = np.linspace(low, high, _BINS + 1) if high > low else np.array([low, low])
    counts, _ = np.histogram(durations, edges, weights=weights)
    names = [f"{edge:.3g}" for edge in edges[:-1]]
    if beyond := float(weights[durations > high].sum()):
        counts, names = np.append(counts, beyond), [*names, f"> {high:.3g}"]
    return Bars("Steps by their duration in seconds", names, {"steps": digits(counts)})


def _sentence(shares: Sequence[Shares], durations: Array, weights: Array) -> str:
    """Describe how the time was spent."""
    seconds = sum(each.seconds for each in shares) or 1.0
    words = {
        "forward": "forward passes",
        "step": "training steps" if shares[0].forward is None else "the rest of the steps",
        "wait": "waiting for data",
        "evaluation": "evaluation",
        "other": "other",
    }
    parts = []
    for field, text in words.items():
        known = [(each.seconds, getattr(each, field)) for each in shares]
        total = sum(length * share for length, share in known if share is not None)
        if any(share is not None for _, share in known):
            parts.append(f"{text} {100 * total / seconds:.0f} %")
    says = f"Time spent: {', '.join(parts)}."
    if not durations.size:
        return f"{says} Steps were not timed, or none ended."
    order = np.argsort(durations)
    half, most = (
        durations[order][np.searchsorted(np.cumsum(weights[order]), q * weights.sum())]
        for q in (0.5, 0.95)
    )
    return f"{says} Half of the steps took at most {half:.3g} s, 95 of 100 at most {most:.3g} s."
