"""The verdict on the machines of a training, from the machine run of the same job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tocsin.events import StatusChange
from tocsin.model import RuleStatus
from tocsin.tensors import is_machine_run, machine_run

LONGEST = 3.0  # seconds; then a message goes without

LastChanges = Callable[[str], Sequence[StatusChange] | None]
"""The last status change of each rule of a run that ever fired; None for a run that is not known.
"""


def machine_findings(
    run: str, last_changes: LastChanges, longest: float = LONGEST
) -> Sequence[StatusChange] | None:
    """Return the rules that fire now in the machine run beside a training's run, the earliest
    first; empty if none does.

    None where no machine is watched, for a machine run itself, and where it is not known within
    ``longest`` seconds: no message is held back, and none fails.
    """
    if is_machine_run(run):
        return None
    pool = ThreadPoolExecutor(1)
    try:
        found = pool.submit(last_changes, machine_run(run)).result(longest)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the alert has to be sent
        return None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a read that hangs holds nobody up
    if found is None:
        return None
    firing = (each for each in found if each.rule_evaluation_status is RuleStatus.ISSUES_FOUND)
    return sorted(firing, key=lambda each: each.sequence)
