from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    register,
    tensor_key,
    violation,
)

_FEWEST = 3  # skipped updates that can be critical
_MOST_WORKERS = 1000  # more are ignored, so the state stays small


@register
@dataclass(frozen=True)
class UpdatesSkipped(Rule):
    """The guard of the hook skipped updates whose loss or gradients are not finite.

    Reads the counts of a hook with ``guard=True``. Fires when a worker skipped an update in the
    last ``window`` saves and ``patience`` updates have followed, to tell one bad batch from a model
    that no longer trains. The severity is ``info``: training survives one bad batch. It is
    ``critical`` when three or more updates were skipped, and at least ``share`` of all updates
    since the first of them. A finding keeps its severity until it is resolved.

    Parameters
    ----------
    window: number of saves that are judged together.
    patience: number of updates after the first skipped one before the rule judges.
    share: share of skipped updates from which on the finding is critical.

    Example: a batch with NaN at step 57 of 1,000.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "One: a batch with NaN or infinite values. Many: the learning rate is too high, a division "
        "by zero or log(0), or half precision without loss scaling."
    )
    advice: ClassVar[str] = (
        "Look at the batches of these steps. If most updates are skipped, lower the learning rate, "
        "clip gradients, or go back to an earlier model checkpoint."
    )

    window: Annotated[int, Meta(ge=1, le=48)] = 10
    patience: Annotated[int, Meta(ge=0)] = 10
    share: Annotated[float, Meta(gt=0, le=1)] = 0.1

    def reads(self) -> Reads:
        read = Read(roles=(Role.UPDATES,), fields=("mean",))
        return Reads({"updates": read})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        counts: dict[str, dict[str | None, Tensor]] = {}
        for tensor in step.tensors["updates"]:
            if tensor.summary.mean is not None:
                counts.setdefault(tensor.worker, {})[tensor.kind] = tensor
        found = [(each["skipped"], each["all"]) for each in counts.values() if {*_KINDS} <= {*each}]
        if not found:
            return state, not_applicable(Reason.NO_TENSOR, "no count of updates")
        after = dict(state)
        verdicts = [self._judge(after, *each) for each in found[:_MOST_WORKERS]]
        return after, max(verdicts, key=_size)

    def _judge(self, after: dict[str, Any], skipped: Tensor, updates: Tensor) -> Verdict:
        """Judge a worker, and keep its counts."""
        key = tensor_key(skipped)
        now = [int(skipped.summary.mean or 0), int(updates.summary.mean or 0)]
        saves = [each for each in after.get(key, [[0, 0]]) if each[1] <= now[1]]
        after[key] = [*saves, now][-self.window - 1 :]
        (before, _), *_ = after[key]
        lost = now[0] - before
        if lost <= 0:
            return measured(HEALTHY, 0, 1)
        first = next(each for each in after[key] if each[0] > before)
        done = max(now[1] - first[1] + first[0] - before, lost)  # since the first one
        if done < self.patience:
            return UNDECIDED
        what = "their loss or gradients are not finite"
        detail = f"{lost} of the last {done} updates were skipped: {what}"
        evidence = {"skipped": lost, "share": lost / done, "updates": done, "in_all": now[0]}
        verdict = violation(Reason.NOT_FINITE, detail, skipped, **evidence)
        critical = lost >= _FEWEST and lost >= self.share * done
        severity = Severity.CRITICAL if critical else Severity.INFO
        return measured(replace(verdict, severity=severity), lost, 1)


_KINDS = ("skipped", "all")


def _size(verdict: Verdict) -> float:
    share = verdict.evidence.get("share", -1.0)
    return float(share)
