"""Which configuration a run gets; the first of three that there is."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._ports import Job, World
from tocsin.tensors import WATCH, NotFound, Storage, TooLarge
from tocsin.watch import BadWatch, Refused, Watch, Watched, parse_watch, resolve, to_watch

_WATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Configuration:
    """The run's rules, those that are wrong, and files that could not be used, with the reason.

    ``job_watch`` is what the SageMaker job was configured with, remembered from the first look.
    """

    watched: tuple[Watched, ...]
    refused: tuple[Refused, ...]
    problems: tuple[tuple[str, str], ...]
    job_watch: Watch | None


def configuration(
    checkpoint: Checkpoint,
    job: Job | None,
    world: World,
    storage: Storage,
    given: Watch | None = None,
) -> Configuration:
    """What is given, the run's ``watch.json``, its job's rules, or the deployed default."""
    if given is not None:
        return Configuration(*resolve(given), (), checkpoint.job_watch)
    problems = []
    own = False
    job_watch = checkpoint.job_watch
    if job is not None and job.rules:
        try:
            job_watch = to_watch(list(job.rules))
        except BadWatch as error:
            problems.append(("DebugRuleConfigurations", str(error)))
    try:
        watch = parse_watch(storage.read(WATCH, limit=_WATCH_BYTES))
        own = True
        if watch.custom_rules is not None:
            why = "only the watch file of a deployment brings rules, which this one may name"
            problems.append((f"custom_rules of {WATCH}", why))
    except NotFound:
        watch = job_watch or world.default
    except (BadWatch, TooLarge) as error:
        problems.append((WATCH, str(error)))
        watch = job_watch or world.default
    watched, refused = resolve(watch)
    if own:  # whoever can write into a run must not read other runs by it
        refused += tuple(_refused(rule) for rule in watched if rule.reads.runs)
        watched = tuple(rule for rule in watched if not rule.reads.runs)
    return Configuration(watched, refused, tuple(problems), job_watch)


def _refused(rule: Watched) -> Refused:
    reason = f"{rule.rule_name}: other runs can be named by the deployment only, not by {WATCH}"
    return Refused(rule.name, rule.rule_name, reason, rule.fingerprint)
