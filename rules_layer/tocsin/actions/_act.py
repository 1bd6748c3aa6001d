"""Take the actions of an alert: each once, the stop first, and none for want of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tocsin.actions._alert import Alert
from tocsin.actions._email import email
from tocsin.actions._metric import metric
from tocsin.actions._ports import Ports
from tocsin.actions._request import Action, Outcome, Request, Result
from tocsin.actions._sms import sms
from tocsin.actions._stop import stop
from tocsin.model import RuleStatus
from tocsin.words import clean

ACTIONS: Mapping[str, Action] = {"stop": stop, "email": email, "sms": sms, "metric": metric}

_MOST = 64
_REST = "(the rest)"

Once = Callable[[str, Callable[[], Result]], Result]
"""Does what is asked and remembers the result by the key; a second call gets the result only.

Nothing is remembered of what raised. Raises Busy while another invocation is at that key.
"""


class Busy(Exception):
    """Another invocation is working on the same alert at this moment: come again later."""


class ActionsFailed(Exception):
    """Some actions, or their records, did not work and must be tried again: ``failed``."""

    def __init__(self, failed: Mapping[str, Result]) -> None:
        self.failed = failed
        super().__init__(
            "; ".join(f"{action}: {result.detail}" for action, result in failed.items())
        )


def act(alert: Alert, ports: Ports, once: Once) -> Mapping[str, Result]:
    """Takes every action of a rule that fired; other statuses ask for nothing.

    Each action is taken and then recorded on the bus, both once however often the alert comes.
    One that nobody can take is refused, and keeps none of the others back.

    Raises:
        ActionsFailed: after all were tried, if any must be tried again.
        Busy: at once, if a second copy of the alert is being worked on.
    """
    results: dict[str, Result] = {}
    failed: dict[str, Result] = {}
    for action in _actions(alert):
        request = Request(alert, action, results.get("stop"))
        result = results[action] = _take(request, ports, once)
        recorded = _record(request, result, ports, once)
        if recorded.outcome is Outcome.FAILED:
            failed[action] = result if result.outcome is Outcome.FAILED else recorded
    if failed:
        raise ActionsFailed(failed)
    return results


def _actions(alert: Alert) -> list[str]:
    if alert.rule_evaluation_status is not RuleStatus.ISSUES_FOUND:
        return []
    actions = sorted(dict.fromkeys(alert.actions), key=lambda action: action != "stop")
    return actions if len(actions) <= _MOST else [*actions[:_MOST], _REST]


def _take(request: Request, ports: Ports, once: Once) -> Result:
    return _tried(lambda: once(request.key, lambda: _perform(request, ports)))


def _record(request: Request, result: Result, ports: Ports, once: Once) -> Result:
    """Says on the bus what came of the action; apart from it, so that neither repeats the other."""
    alert = request.alert

    def tell() -> Result:
        ports.put_event(
            "Tocsin Action Taken",
            {
                "TrainingJobName": alert.training_job_name,
                "Run": alert.run,
                "RunId": alert.run_id,
                "RuleConfigurationName": alert.rule_configuration_name,
                "Action": clean(request.name, 80),
                "Outcome": result.outcome,
                "Detail": clean(result.detail, 2000),
                "DedupId": alert.dedup_id,
            },
        )
        return result

    return _tried(lambda: once(f"{request.key}/{result.outcome}", tell))


def _tried(do: Callable[[], Result]) -> Result:
    """What ``do`` comes to; an exception becomes a result, for other actions are still to take."""
    try:
        return do()
    except Busy:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this action's alone
        return Result(Outcome.FAILED, clean(f"{type(error).__name__}: {error}", 500))


def _perform(request: Request, ports: Ports) -> Result:
    if request.action == _REST:
        return Result(Outcome.REFUSED, f"more than {_MOST} actions: the rest is left out")
    action = ACTIONS.get(request.name)
    if action is None:
        known = ", ".join(ACTIONS)
        return Result(
            Outcome.REFUSED, f"unknown action {clean(request.name, 80)!r}: there are {known}"
        )
    if not request.alert.dry_run:
        return action(request, ports)
    planned = action(request, ports.rehearsal())
    return Result(
        Outcome.DRY_RUN,
        f"dry run, nothing was done; it would have been {planned.outcome}: {planned.detail}",
    )
