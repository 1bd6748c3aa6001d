"""What each rule says of each run, by the same engine as in Lambda; kept for unchanged code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.rules import RECOMMENDED, SAGEMAKER, rule_names
from tocsin.tensors import open_storage
from tocsin.watch import RuleConfig, Watch

from benchmarks.detection.progress import work
from benchmarks.detection.runs import CACHE, Run, fingerprint

EVERYTHING = "all"
PROFILES = (RECOMMENDED, SAGEMAKER, EVERYTHING)


@dataclass(frozen=True)
class Alarm:
    """A rule that fired: first at ``step``, when so many steps had been saved."""

    rule: str
    step: int
    saves: int
    tensor: str | None
    detail: str


@dataclass(frozen=True)
class Evaluation:
    """What a set of rules said of a run. ``failed`` are rules that ended in an error."""

    run: str
    fingerprint: str
    rules: str
    alarms: tuple[Alarm, ...]
    failed: tuple[str, ...]

    def of(self, profile: str) -> tuple[Alarm, ...]:
        """The alarms of a profile's rules, where all were evaluated."""
        if profile not in (RECOMMENDED,):
            return self.alarms
        chosen = rule_names(profile)
        return tuple(alarm for alarm in self.alarms if alarm.rule in chosen)


@dataclass(frozen=True)
class Task:
    """A run, and which rules are to watch it: see ``evaluate``."""

    run: Run
    rules: str


def evaluate(
    runs: Iterable[Run], rules: str, cache: Path = CACHE, jobs: int = 2
) -> dict[str, Evaluation]:
    """By the run's name: ``rules`` is ``sagemaker``, or ``all`` with recommended defaults."""
    file = cache / f"{rules}-{_code()}.jsonl"
    for stale in cache.glob(f"{rules}-*.jsonl"):
        if stale != file:
            stale.unlink()
    known = {(one.run, one.fingerprint): one for one in _read(file)}
    wanted = {run: (run.setup.name, _digest(run)) for run in runs}
    todo = [Task(run, rules) for run, key in wanted.items() if key not in known]
    with file.open("ab") as lines:
        for one in work(rules, evaluate_one, todo, jobs):
            lines.write(msgspec.json.encode(one) + b"\n")
            known[one.run, one.fingerprint] = one
    return {run.setup.name: known[key] for run, key in wanted.items()}


def evaluate_one(task: Task) -> Evaluation:
    run = task.run
    saved = Steps()
    checkpoint, _ = check(open_storage(run.tensors), watch(task.rules), on_step=saved.append)
    alarms = [
        Alarm(record.rule, found.step, saved.until(found.step), found.tensor, found.detail)
        for record in checkpoint.rules.values()
        if (found := record.first_violation) is not None
        and record.status is RuleStatus.ISSUES_FOUND
    ]
    failed = [r.rule for r in checkpoint.rules.values() if r.status is RuleStatus.ERROR]
    return Evaluation(run.setup.name, _digest(run), task.rules, tuple(alarms), tuple(failed))


class Steps(list[int]):
    """The steps that were saved, in order."""

    def until(self, step: int) -> int:
        return sum(saved <= step for saved in self)


def watch(rules: str) -> Watch:
    """Every rule with the recommended defaults, or the rules of profile ``sagemaker``."""
    if rules == SAGEMAKER:
        return Watch(profile="sagemaker")
    return Watch(rules=tuple(RuleConfig(name) for name in rule_names()))


def _read(file: Path) -> Iterator[Evaluation]:
    if file.is_file():
        decoder = msgspec.json.Decoder(Evaluation)
        yield from map(decoder.decode, file.read_bytes().splitlines())


def _digest(run: Run) -> str:
    return hashlib.sha256(fingerprint(run.setup)).hexdigest()[:16]


@cache
def _code() -> str:
    """A digest of all that evaluates."""
    digest = hashlib.sha256()
    folder = Path(__file__).resolve().parents[2] / "rules_layer" / "tocsin"
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
