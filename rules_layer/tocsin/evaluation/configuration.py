"""Load: which rules watch a run, from the first of three configurations that there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from msgspec import structs

from tocsin.evaluation.baselines import is_of_owner
from tocsin.evaluation.ports import JobDescription, is_own
from tocsin.evaluation.status_changes import configure
from tocsin.evaluation.unit_of_work import UnitOfWork, Unusable
from tocsin.rules import MACHINE, TRAINING
from tocsin.tensors import (
    COLLECTIONS,
    WATCH,
    BadCollections,
    Collections,
    MemoryStorage,
    NotFound,
    RefusedFile,
    Storage,
    is_machine_run,
    job_name,
    read_collections,
)
from tocsin.watch import (
    BadWatch,
    Fault,
    Refused,
    Watch,
    Watched,
    alert_faults,
    parse_parts,
    resolve,
    to_watch,
)

JOB = "DebugRuleConfigurations"
DEPLOYMENT = "watch file of the deployment"
MOST_PROBLEMS = 20
_WATCH_BYTES = 1 << 20
_MOST_KNOWN = 8  # runs, each with up to 16 MiB of collections


@dataclass(frozen=True)
class Configuration:
    """The rules that watch a run.

    refused: rules that are wrong.
    problems: what else could not be used, with the reason.
    job_watch: the SageMaker job's own rules, remembered from when it was described.
    watch: the watch file that all of it comes from.
    collections: of the run; None as long as there are none that can be used.
    job: the SageMaker job, if this look has described it.
    """

    watched: tuple[Watched, ...]
    refused: tuple[Refused, ...]
    problems: tuple[Unusable, ...]
    job_watch: Watch | None
    watch: Watch
    collections: Collections | None = None
    job: JobDescription | None = None


@dataclass(frozen=True)
class _Files:
    """The run's own files: its collections, its watch file, and faults in them."""

    collections: Collections | None
    watch: Watch | None
    problems: tuple[Unusable, ...]


def load_rules(
    work: UnitOfWork, given: Watch | None, *, again: bool = True, new_start: bool = False
) -> Configuration:
    """Return the run's configuration, with a record in the checkpoint for each of its rules.

    Unless it is read ``again``, the run's own files are as this process knows them, if there was no
    notification of them since. The SageMaker job is described at the first look and at each
    ``new_start``: that may be another job, which has the name of one that was deleted.
    """
    files = _files(work, again)
    collections = files.collections
    job = _describe_job(work) if work.is_first_look or new_start else None
    found = replace(_configuration(work, job, given, files), collections=collections, job=job)
    checkpoint = structs.replace(
        work.checkpoint, job_watch=found.job_watch, price=_price(work, found)
    )
    work.replace(configure(checkpoint, found.watched, found.refused))
    return found


def _price(work: UnitOfWork, found: Configuration) -> float | None:
    """Return US dollars per hour: as the watch file says, else of the job's machines where the
    deployment has all their prices.
    """
    if found.watch.price_per_hour is not None:
        return found.watch.price_per_hour
    if found.job is None:
        return work.checkpoint.price
    prices, machines = work.ports.prices, found.job.machines
    if not machines or not machines.keys() <= prices.keys():
        return None
    return sum(prices[each] * count for each, count in machines.items())


def _files(work: UnitOfWork, again: bool) -> _Files:
    known, run = work.ports.configurations, work.checkpoint.run
    number: int
    files: _Files | None
    number, files = known.pop(run, (-1, None))
    if again or files is None or number != work.checkpoint.configured:
        problems: list[Unusable] = []
        own = _own(work.files, problems)
        files = _Files(_collections(work), own, tuple(problems))
    if files.collections is not None:  # else they are still to come
        known[run] = work.checkpoint.configured, files
    if len(known) > _MOST_KNOWN:
        known.popitem(last=False)
    return files


def known_workers(work: UnitOfWork) -> int | None:
    """Return how many workers the run has, if this process has read its collections since they
    changed."""
    number, files = work.ports.configurations.get(work.checkpoint.run, (-1, None))
    if files is None or number != work.checkpoint.configured:
        return None
    workers: int | None = files.collections and files.collections.num_workers
    return workers


def _collections(work: UnitOfWork) -> Collections | None:
    try:
        return read_collections(work.files)
    except BadCollections as error:
        work.refuse_file(COLLECTIONS, str(error))
        return None


def _describe_job(work: UnitOfWork) -> JobDescription | None:
    """SageMaker's description of the run's job; later events of the job find the run."""
    run, jobs = work.checkpoint.run, work.ports.jobs
    job = jobs.describe(job_name(run), run)
    if job is not None and is_own(job, run, jobs):
        work.ports.coordination.remember_job(job_name(run), run)
        return job
    return None if job is None else replace(job, ended_at=None)


def _configuration(
    work: UnitOfWork, job: JobDescription | None, given: Watch | None, files: _Files
) -> Configuration:
    """The given file, the run's ``watch.json``, its job's rules, or the deployed default."""
    job_watch = work.checkpoint.job_watch
    about = _subject(work)
    if given is not None:
        return _resolved(given, (), job_watch, about)
    problems: list[Unusable] = []
    rules = () if job is None else job.rules
    if job is not None and about == MACHINE:
        rules = (*rules, *job.profiler_rules)
    if job is not None:
        job_watch = None
    if rules:
        try:
            job_watch = to_watch(list(rules))
        except BadWatch as error:
            problems.append((JOB, str(error)))
    own = files.watch
    problems += files.problems
    if own is None:
        watch, name = (job_watch, JOB) if job_watch else (work.ports.default, DEPLOYMENT)
    else:
        watch, name = own, WATCH
    problems += (_problem(name, fault) for fault in alert_faults(watch))
    found = _resolved(watch, problems, job_watch, about)
    if own is None:
        return found
    denied = tuple(rule for rule in found.watched if not _may_read(work, rule))
    return replace(  # who can write into a run must not read the runs of others by it
        found,
        watched=tuple(rule for rule in found.watched if rule not in denied),
        refused=(*found.refused, *map(_refused, denied)),
    )


def _may_read(work: UnitOfWork, rule: Watched) -> bool:
    """Return whether the run's own watch file may let a rule read the runs that it reads."""
    run, owner = work.checkpoint.run, work.ports.owner
    return not rule.reads.runs and all(
        is_of_owner(run, baseline, owner) for baseline in rule.reads.baselines
    )


def _subject(work: UnitOfWork) -> str | None:
    """Return what the run's rules are about; None for a history, which has both subjects."""
    if isinstance(work.storage, MemoryStorage) and work.storage.is_history:
        return None
    return MACHINE if is_machine_run(work.checkpoint.run) else TRAINING


def _own(storage: Storage, problems: list[Unusable]) -> Watch | None:
    """The run's own watch file, as far as it can be used; None if there is none that can."""
    try:
        watch, faults = parse_parts(storage.read(WATCH, limit=_WATCH_BYTES))
    except NotFound:
        return None
    except (BadWatch, RefusedFile) as error:
        problems.append((WATCH, str(error)))
        return None
    if watch.custom_rules is not None:
        why = (
            "custom_rules work in the watch file of a deployment only; this one may name its rules"
        )
        problems.append((f"custom_rules of {WATCH}", why))
    if grave := [fault for fault in faults if not fault.mild]:
        problems.append((WATCH, str(grave[0])))
        return None
    problems += (_problem(WATCH, fault) for fault in faults)
    return watch


def _problem(name: str, fault: Fault) -> Unusable:
    return f"{name}: {fault.place}", fault.text


def _resolved(
    watch: Watch, problems: Iterable[Unusable], job_watch: Watch | None, about: str | None
) -> Configuration:
    watched, refused = resolve(watch, about)
    unusable = tuple(dict.fromkeys(problems))[:MOST_PROBLEMS]
    return Configuration(watched, refused, unusable, job_watch, watch)


def _refused(rule: Watched) -> Refused:
    reason = f"{rule.rule_name}: other runs can be named by the deployment only, not by {WATCH}"
    if not rule.reads.runs:
        reason = (
            f"{rule.rule_name}: {WATCH} names a baseline of another owner: name a run below the "
            "same folder, or let the deployment's watch file name it"
        )
    return Refused(rule.name, rule.rule_name, reason, rule.fingerprint)
