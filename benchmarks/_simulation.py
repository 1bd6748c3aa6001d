"""A discrete-event simulation of the evaluate queue: messages, invocations, leases, batches."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.aws.coordination import KNOWN_HELD
from tocsin.evaluation.batching import PATIENCE
from tocsin.evaluation.evaluator import SHARE


@dataclass(frozen=True)
class Times:
    """Seconds of an invocation on AWS.

    look: a look at a run with one new step.
    step: each further step of the same look.
    held: each call for a hint of a run that another invocation looks at: two, or one where the
        process knows that.
    cold: until a new execution environment handles its first message.
    notice: from an index file in the bucket to its message in the queue.
    """

    look: float
    step: float
    held: float
    cold: float
    notice: float


@dataclass
class Outcome:
    """The measured figures.

    lags: when each file was written, seconds from then to its verdict, and its run.
    invocations, busy: how many there were, and their seconds.
    most: the most invocations at a time.
    handed_on, continued: messages that were sent again, and hints to go on.
    """

    lags: list[tuple[float, float, int]] = field(default_factory=list)
    invocations: int = 0
    messages: int = 0
    busy: float = 0.0
    most: int = 0
    handed_on: int = 0
    continued: int = 0


_Message = tuple[float, int, int, float | None]
"""When it can be received, its number, its run, and when its file was written; None: a hint."""


def simulate(
    saves: Iterable[tuple[float, int]],
    slots: Sequence[float],
    times: Times,
    *,
    backlog: Mapping[int, int] | None = None,
    batch: int = 10,
    patience: float = PATIENCE,
    share: float = SHARE,
) -> Outcome:
    """Works off the ``saves``, each a time and a run.

    ``slots`` says from when on each concurrent invocation may begin. Runs with a ``backlog`` of
    steps begin with as many hints. The queue is in the order of its messages: SQS's is nearly.
    """
    left = dict(backlog or {})
    waiting: list[_Message] = [(at + times.notice, n, run, at) for n, (at, run) in enumerate(saves)]
    number = len(waiting)
    for run, steps in left.items():
        waiting += [(0.0, number + at, run, None) for at in range(steps)]
        number += steps
    heapq.heapify(waiting)
    free = [(at, True, slot) for slot, at in enumerate(slots)]
    heapq.heapify(free)
    known: list[dict[int, float]] = [{} for _ in slots]  # until when a run is held, as a slot knows
    ends: list[float] = []
    leased: dict[int, float] = {}
    found = Outcome()
    while waiting:
        begin, is_cold, slot = heapq.heappop(free)
        begin = max(begin, waiting[0][0])
        received: dict[int, list[_Message]] = {}
        for _ in range(batch):
            if not waiting or waiting[0][0] > begin:
                break
            message = heapq.heappop(waiting)
            received.setdefault(message[2], []).append(message)
        clock = begin + times.cold * is_cold
        for run, messages in received.items():
            if clock > begin + patience and run != next(iter(received)):
                found.handed_on += len(messages)
                for _, at, _, saved in messages:  # under way since its patience was over
                    heapq.heappush(waiting, (begin + patience, at, run, saved))
                continue
            files = [saved for *_, saved in messages if saved is not None]
            is_known = known[slot].pop(run, 0.0) > clock
            if leased.get(run, 0.0) > clock:
                clock += times.held * (1 if is_known else 2)
                known[slot][run] = clock + KNOWN_HELD
                # The holder looks again when it has ended.
                left[run] = left.get(run, 0) + (len(files) if run in left else 0)
                verdict = leased[run] + times.look
            else:
                steps = left.get(run, 0) + len(files)
                most = max(1, int((share - times.look) / times.step))
                took = times.look + times.step * max(0, min(steps, most) - 1)
                took += times.held * is_known
                if run in left:
                    left[run] = max(0, steps - most)
                    if left[run]:
                        number += 1
                        found.continued += 1
                        heapq.heappush(waiting, (clock + took, number, run, None))
                clock += took
                leased[run] = verdict = clock
            found.lags += [(saved, verdict - saved, run) for saved in files]
        found.invocations += 1
        found.messages += sum(map(len, received.values()))
        found.busy += clock - begin
        while ends and ends[0] <= begin:
            heapq.heappop(ends)
        heapq.heappush(ends, clock)
        found.most = max(found.most, len(ends))
        heapq.heappush(free, (clock, False, slot))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all is at or below; NaN of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
