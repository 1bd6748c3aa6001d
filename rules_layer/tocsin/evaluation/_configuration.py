"""Which configuration a run gets; the first of three that there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._ports import Job, World
from tocsin.tensors import WATCH, NotFound, RefusedFile, Storage
from tocsin.watch import (
    BadWatch,
    Fault,
    Refused,
    Watch,
    Watched,
    alert_faults,
    placed,
    resolve,
    survey,
    to_watch,
)

Problem = tuple[str, str]
"""Where something cannot be used, and why."""

JOB = "DebugRuleConfigurations"
DEPLOYMENT = "watch file of the deployment"
MOST_PROBLEMS = 20
_WATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Configuration:
    """The run's rules, those that are wrong, and what else could not be used, with the reason.

    ``job_watch`` is what the SageMaker job was configured with, remembered from the first look.
    ``watch`` is the watch file that all of it comes from.
    """

    watched: tuple[Watched, ...]
    refused: tuple[Refused, ...]
    problems: tuple[Problem, ...]
    job_watch: Watch | None
    watch: Watch


def configuration(
    checkpoint: Checkpoint,
    job: Job | None,
    world: World,
    storage: Storage,
    given: Watch | None = None,
) -> Configuration:
    """What is given, the run's ``watch.json``, its job's rules, or the deployed default."""
    if given is not None:
        return _resolved(given, (), checkpoint.job_watch)
    problems: list[Problem] = []
    job_watch = checkpoint.job_watch
    if job is not None and job.rules:
        try:
            job_watch = to_watch(list(job.rules))
        except BadWatch as error:
            problems.append((JOB, str(error)))
    own = _own(storage, problems)
    if own is None:
        watch, name = (job_watch, JOB) if job_watch else (world.default, DEPLOYMENT)
    else:
        watch, name = own, WATCH
    problems += (_problem(name, fault) for fault in alert_faults(watch))
    found = _resolved(watch, problems, job_watch)
    if own is None:
        return found
    return replace(  # whoever can write into a run must not read other runs by it
        found,
        watched=tuple(rule for rule in found.watched if not rule.reads.runs),
        refused=(*found.refused, *(_refused(rule) for rule in found.watched if rule.reads.runs)),
    )


def _own(storage: Storage, problems: list[Problem]) -> Watch | None:
    """The run's own watch file, as far as it can be used; None if there is none that can."""
    try:
        watch, faults = survey(storage.read(WATCH, limit=_WATCH_BYTES))
    except NotFound:
        return None
    except (BadWatch, RefusedFile) as error:
        problems.append((WATCH, str(error)))
        return None
    if watch.custom_rules is not None:
        why = "only the watch file of a deployment brings rules, which this one may name"
        problems.append((f"custom_rules of {WATCH}", why))
    if grave := [fault for fault in faults if not fault.mild]:
        problems.append((WATCH, str(grave[0])))
        return None
    problems += (_problem(WATCH, fault) for fault in faults)
    return watch


def _problem(name: str, fault: Fault) -> Problem:
    return f"{name}: {placed(fault.path)}", fault.text


def _resolved(watch: Watch, problems: Iterable[Problem], job_watch: Watch | None) -> Configuration:
    watched, refused = resolve(watch)
    unusable = tuple(dict.fromkeys(problems))[:MOST_PROBLEMS]
    return Configuration(watched, refused, unusable, job_watch, watch)


def _refused(rule: Watched) -> Refused:
    reason = f"{rule.rule_name}: other runs can be named by the deployment only, not by {WATCH}"
    return Refused(rule.name, rule.rule_name, reason, rule.fingerprint)
