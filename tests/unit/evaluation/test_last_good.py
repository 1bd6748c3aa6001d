"""The last good step and checkpoint of a run that goes wrong, and what a stop has saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as replace_ports

import msgspec
import pytest
from msgspec.structs import replace
from tocsin.evaluation import (
    Checkpoint,
    Hint,
    JobDescription,
    MemoryJobs,
    MemoryPublisher,
    check,
    document,
    evaluate,
    memory_ports,
)
from tocsin.evaluation.checkpoint_format import decode_checkpoint, encode_checkpoint
from tocsin.evaluation.last_good import last_good, not_run
from tocsin.events import LastGood, NotRun, RunSummary
from tocsin.judge import Following
from tocsin.model import Mode
from tocsin.tensors import Captured, LocalStorage, RunMeta, SavedCheckpoint, write_step
from tocsin.watch import Watch

from tests.unit.evaluation.conftest import START, Job

MakeWatch = Callable[..., Watch]
RULE = "ExplodingTensor"


@pytest.fixture
def watched(watch: MakeWatch) -> Watch:
    return watch(RULE)


def save(
    job: Job,
    steps: range,
    *,
    nan_from: int = 10**9,
    every: int = 0,
    planned: int | None = None,
    run_id: str = "run-1",
) -> None:
    """Save steps of a training that saves a checkpoint each so many, which the next step names."""
    for step in steps:
        saved = None
        if every and step >= every:
            last = step - step % every - 1
            saved = SavedCheckpoint(last, f"s3://b/checkpoints/{run_id}/{last}.pt")
        resumed = steps[0] - 1 if steps[0] else None
        key_meta = RunMeta(
            run_id,
            step - 1 if step > steps[0] else None,
            resumed,
            planned_steps=planned,
            checkpoint=saved,
        )
        write_step(
            job.storage,
            step=step,
            mode=Mode.TRAIN,
            mode_step=step,
            tensors=[Captured("loss", float("nan") if step >= nan_from else 1.0)],
            meta=key_meta,
        )
        job.touch(f"index/000000000/{step:012d}_worker_0.json", START + 36 * step)


def judged(job: Job, watch: Watch) -> Checkpoint:
    checkpoint, _ = check(job.storage, watch, now=lambda: START + 10_000)
    return decode_checkpoint(encode_checkpoint(checkpoint))


def test_the_last_step_and_checkpoint_before_the_first_sign(job: Job, watched: Watch) -> None:
    save(job, range(40), nan_from=25, every=10, planned=140)
    job.end()
    checkpoint = judged(job, watched)
    assert last_good(checkpoint) == LastGood(25, 24, "s3://b/checkpoints/run-1/19.pt", 19)
    assert not_run(checkpoint) == NotRun(100, 1.0)
    said = document(checkpoint)
    assert said["last_good"] == {
        "FirstSign": 25,
        "Step": 24,
        "Checkpoint": "s3://b/checkpoints/run-1/19.pt",
        "CheckpointStep": 19,
    }
    assert said["not_run"] == {"Steps": 100, "Hours": 1.0, "Usd": None}


def test_the_price_of_what_was_not_run(job: Job, watch: MakeWatch) -> None:
    save(job, range(40), nan_from=25, planned=140)
    job.end()
    checkpoint = judged(job, watch(RULE, actions=["stop"], price_per_hour=3.06))
    assert document(checkpoint)["not_run"] == {"Steps": 100, "Hours": 1.0, "Usd": 3.06}
    assert checkpoint.summaries == ()
    change = checkpoint.rules[RULE].last_change
    assert change is not None
    assert change.stop_saves == NotRun(114, 1.14, 3.49)
    assert change.stop_saves.text == "114 planned steps, 1.14 hours, $3.49"


def test_a_rule_that_does_not_stop_saves_nothing(job: Job, watched: Watch) -> None:
    save(job, range(40), nan_from=25, planned=140)
    change = judged(job, watched).rules[RULE].last_change
    assert change is not None
    assert change.stop_saves is msgspec.UNSET


def test_the_summary_has_the_price(job: Job, watch: MakeWatch) -> None:
    save(job, range(40), nan_from=25, planned=140)
    job.end()
    published = MemoryPublisher()
    followed = Following(
        job.storage, watch(RULE, price_per_hour=2), lambda: START + 10_000, published
    )
    followed.look()
    (summary,) = (each for each in published.published if isinstance(each, RunSummary))
    assert summary.not_run == NotRun(100, 1.0, 2.0)


@pytest.mark.parametrize(
    ("machines", "usd"),
    [
        pytest.param({"ml.g5.xlarge": 2}, 2.82, id="two of a type"),
        pytest.param({"ml.g5.xlarge": 1, "ml.c5.xlarge": 4}, 2.23, id="groups"),
        pytest.param({"ml.g5.xlarge": 1, "ml.p5.48xlarge": 1}, None, id="a type without a price"),
        pytest.param({}, None, id="no machines"),
    ],
)
def test_the_price_of_a_job_of_sagemaker(
    job: Job, watched: Watch, machines: dict[str, int], usd: float | None
) -> None:
    save(job, range(40), nan_from=25, planned=140)
    job.end()
    ports = replace_ports(
        memory_ports(job.storage, lambda: START + 10_000),
        default=watched,
        jobs=MemoryJobs({"j1": JobDescription(machines=machines)}),
        prices={"ml.g5.xlarge": 1.41, "ml.c5.xlarge": 0.204},
    )
    for owner in "ab":  # the job is described at the first look only
        evaluate(Hint(job.storage.url), ports, owner=owner, ends=START + 10_060)
    found = not_run(ports.checkpoints.load(job.storage.url).checkpoint)
    assert found is not None
    assert found.usd == (None if usd is None else pytest.approx(usd, abs=0.01))


def test_the_event_names_it(job: Job, watched: Watch) -> None:
    save(job, range(40), nan_from=25, every=10)
    change = judged(job, watched).rules[RULE].last_change
    assert change is not None
    assert isinstance(change.last_good, LastGood)
    assert change.last_good.text == "step 24; checkpoint of step 19: s3://b/checkpoints/run-1/19.pt"


@pytest.mark.parametrize(
    ("nan_from", "every", "expected"),
    [
        pytest.param(99, 10, None, id="no fault"),
        pytest.param(5, 10, LastGood(5, 4), id="no checkpoint before"),
        pytest.param(0, 10, LastGood(0), id="no healthy step"),
        pytest.param(25, 0, LastGood(25, 24), id="no checkpoints"),
        pytest.param(
            20, 10, LastGood(20, 19, "s3://b/checkpoints/run-1/19.pt", 19), id="just before"
        ),
    ],
)
def test_what_is_not_known(
    job: Job, watched: Watch, nan_from: int, every: int, expected: LastGood | None
) -> None:
    save(job, range(40), nan_from=nan_from, every=every)
    assert last_good(judged(job, watched)) == expected


def test_a_machine_run_has_no_step_to_go_back_to(job: Job, watched: Watch) -> None:
    save(job, range(40), nan_from=25)
    checkpoint = judged(job, watched)
    assert last_good(checkpoint) is not None
    assert last_good(replace(checkpoint, run="s3://b/jobs/j1/profiler-output")) is None


def test_many_checkpoints_after_the_fault_do_not_hide_the_good_one(
    job: Job, watched: Watch
) -> None:
    save(job, range(200), nan_from=25, every=1)
    checkpoint = judged(job, watched)
    assert len(checkpoint.saved) <= 50
    assert last_good(checkpoint) == LastGood(25, 24, "s3://b/checkpoints/run-1/24.pt", 24)


def test_checkpoints_that_a_restart_went_back_behind_do_not_count(job: Job, watched: Watch) -> None:
    save(job, range(30), every=10)
    save(job, range(15, 40), nan_from=35, every=15, run_id="run-2")
    checkpoint = judged(job, watched)
    assert last_good(checkpoint) == LastGood(35, 34, "s3://b/checkpoints/run-2/29.pt", 29)
    assert [each.step for each in checkpoint.saved] == [9, 14, 29]


@pytest.mark.parametrize("planned", [None, 40, 30])
def test_nothing_is_saved_of_a_run_that_ran_to_its_end(
    job: Job, watched: Watch, planned: int | None
) -> None:
    save(job, range(40), nan_from=25, planned=planned)
    job.end()
    assert not_run(judged(job, watched)) is None


def test_a_copied_run_has_no_times(job: Job, watched: Watch) -> None:
    save(job, range(40), nan_from=25, planned=140)
    job.end()
    checkpoint = judged(job, watched)
    found = not_run(replace(checkpoint, first_time=checkpoint.last_time))
    assert found == NotRun(100)
    assert found.text == "100 planned steps, an unknown time, at an unknown price"


def test_a_path_that_is_too_long_makes_the_file_unusable(job: Job) -> None:
    meta = RunMeta("r", checkpoint=SavedCheckpoint(1, "x" * 1025))
    with pytest.raises(ValueError, match="length <= 1024"):
        write_step(
            LocalStorage(job.storage.url),
            step=0,
            mode=Mode.TRAIN,
            mode_step=0,
            tensors=[Captured("loss", 1.0)],
            meta=meta,
        )
