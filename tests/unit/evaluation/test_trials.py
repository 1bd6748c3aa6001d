"""Rules that read the run as a whole: the same in one look, in many, and in a fresh process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tocsin.evaluation import Checkpoint, Hint, evaluate, memory_ports
from tocsin.evaluation.trials import Trials
from tocsin.model import Verdict
from tocsin.rules import HEALTHY, Reads, Rule, State, Step, _registry, register
from tocsin.tensors import LocalStorage
from tocsin.trial import PastTrial, past

from .conftest import START, Job

NOW = START + 100


@dataclass(frozen=True)
class Whole(Rule):
    """Notes what it sees of the run."""

    def reads(self) -> Reads:
        return Reads({}, trial=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        loss = step.trial.tensor("loss")
        seen = {str(at): float(loss.value(at)[0]) for at in loss.steps()}
        names = step.trial.tensor_names(collection="gradients")
        return {**state, f"at {step.step}": [seen, names, step.trial.num_workers]}, HEALTHY


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    register(Whole)


@dataclass
class Looks:
    """Looks at a job with a watch file, in one process or each in a fresh one."""

    job: Job
    fresh: bool
    watch: Any
    ports: Any = field(init=False)

    def __post_init__(self) -> None:
        ports = memory_ports(self.job.storage, lambda: NOW)
        self.ports = replace(ports, default=self.watch)

    def look(self) -> Checkpoint:
        run = self.job.storage.url
        if self.fresh:
            self.ports = replace(self.ports, trials=Trials())
        evaluate(Hint(run), self.ports, owner="me", ends=NOW + 100)
        return self.ports.checkpoints.load(run).checkpoint

    def state(self) -> dict[str, Any]:
        return dict(self.look().rules["Whole"].state)


def save(job: Job, step: int) -> None:
    job.save(step, previous=step - 1 if step else None, loss=float(step))


@pytest.mark.parametrize("fresh", [False, True])
def test_many_looks_see_what_one_sees(job: Job, watch: Callable[..., Any], fresh: bool) -> None:
    looks = Looks(job, fresh, watch("Whole"))
    for step in range(5):
        save(job, step)
        looks.look()
    job.end()
    state = looks.state()
    assert state == Looks(job, fresh, watch("Whole")).state()
    assert state == {
        f"at {step}": [{str(at): float(at) for at in range(step + 1)}, ["gradient/fc"], 1]
        for step in range(5)
    }


def test_a_process_that_knows_the_run_reads_nothing_of_it_again(
    job: Job, watch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(job, False, watch("Whole"))
    sources: list[Any] = []
    real = past.source_of
    monkeypatch.setattr(past, "source_of", lambda *args: sources.append(args[1]) or real(*args))
    for step in range(5):
        save(job, step)
        looks.look()
    assert [(steps.first, steps.end) for steps in sources] == [(None, None)]
    looks.fresh = True
    save(job, 5)
    looks.look()
    assert [(steps.first, steps.end) for steps in sources[1:]] == [(None, None), (0, 5)]


def test_without_such_a_rule_there_is_no_trial(job: Job, watch: Callable[..., Any]) -> None:
    looks = Looks(job, False, watch("ExplodingTensor"))
    save(job, 0)
    looks.look()
    assert looks.ports.trials == Trials()


def test_few_runs_are_kept(job: Job, watch: Callable[..., Any], tmp_path: Any) -> None:
    jobs = [Job(LocalStorage(tmp_path / f"j{number}" / "debug-output")) for number in range(5)]
    trials = Trials()
    for each in jobs:
        each.begin()
        save(each, 0)
        looks = Looks(each, False, watch("Whole"))
        looks.ports = replace(looks.ports, trials=trials)
        looks.look()
    assert list(trials._of) == [each.storage.url for each in jobs[-3:]]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_restart_takes_back_what_was_seen(
    job: Job, watch: Callable[..., Any], fresh: bool
) -> None:
    looks = Looks(job, fresh, watch("Whole"))
    for step in range(4):
        save(job, step)
    looks.look()
    job.run_id = "run-2"
    key = job.save(2, previous=None, resumed=1, loss=20.0)
    job.touch(key, NOW - 1)
    ports, run = looks.ports, job.storage.url
    evaluate(Hint(run, (key,)), ports, owner="me", ends=NOW + 100)
    job.touch(job.save(4, previous=2, resumed=1, loss=40.0), NOW)
    state = looks.state()
    assert state["at 2"][0] == {"0": 0.0, "1": 1.0, "2": 20.0}
    assert state["at 4"][0] == {"0": 0.0, "1": 1.0, "2": 20.0, "4": 40.0}  # 3 is of the old start


def test_a_restart_that_another_process_saw(job: Job, watch: Callable[..., Any]) -> None:
    """What this one knows of the steps that were taken back is forgotten."""
    looks, warm = Looks(job, False, watch("Whole")), Trials()
    looks.ports = replace(looks.ports, trials=warm)
    for step in range(4):
        save(job, step)
    looks.look()
    job.run_id = "run-2"
    key = job.save(2, previous=None, resumed=1, loss=20.0)
    job.touch(key, NOW - 1)
    looks.ports = replace(looks.ports, trials=Trials())
    evaluate(Hint(job.storage.url, (key,)), looks.ports, owner="other", ends=NOW + 100)
    job.touch(job.save(4, previous=2, resumed=1, loss=40.0), NOW)
    looks.look()
    looks.ports = replace(looks.ports, trials=warm)
    job.touch(job.save(5, previous=4, resumed=1, loss=50.0), NOW)
    state = looks.state()
    assert state["at 5"][0] == {"0": 0.0, "1": 1.0, "2": 20.0, "4": 40.0, "5": 50.0}


def test_history_is_read_so_far_back_and_no_further(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.steps(6)
    monkeypatch.setattr(past, "MOST_FILES", 2)
    trial = PastTrial(job.storage, lambda name: pytest.fail(name))
    trial.catch_up(4)
    assert trial.steps() == [3, 4]
    assert trial.last_step == 4


def test_trouble_with_the_storage_is_not_the_rules(
    job: Job, watch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look is given up and comes again; nothing of it was committed."""
    from tocsin.trial.folder import Folder

    looks = Looks(job, False, watch("Whole"))
    save(job, 0)
    looks.look()
    save(job, 1)
    real = Folder.read
    monkeypatch.setattr(Folder, "read", lambda *_: (_ for _ in ()).throw(TimeoutError("slow")))
    with pytest.raises(TimeoutError, match="slow"):
        looks.look()
    monkeypatch.setattr(Folder, "read", real)
    record = looks.look().rules["Whole"]
    assert (record.data_points, record.disabled) == (2, False)
    assert record.state["at 1"][0] == {"0": 0.0, "1": 1.0}


def test_a_runs_own_file_brings_no_rules(
    job: Job, watch: Callable[..., Any], tmp_path: Any
) -> None:
    """It may name those that the deployment brought."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    text = f'{{"rules": ["Whole", "Evil"], "custom_rules": "{tmp_path}"}}'
    job.storage.write("watch.json", text.encode())
    save(job, 0)
    looks = Looks(job, False, watch())
    report = evaluate(Hint(job.storage.url), looks.ports, owner="me", ends=NOW + 100)
    (line,) = report.log
    assert line.endswith(
        "refused custom_rules of watch.json: "
        "custom_rules work in the watch file of a deployment only; this one may name its rules"
    )
    checkpoint = looks.look()
    assert checkpoint.rules["Whole"].data_points == 1
    assert checkpoint.rules["Evil"].details.startswith("unknown rule 'Evil'")
