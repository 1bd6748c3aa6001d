"""The callback in real trainings of a tiny transformer, made here: nothing is downloaded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from tocsin import Mode, create_trial
from tocsin.tensors import STOP

os.environ["HF_HUB_OFFLINE"] = "1"

import transformers
from tocsin_hooks.huggingface import TocsinCallback

from tests.frameworks.in_torch.runs import indexes, values
from tests.waiting import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore")
END_MARKER = "training_job_end.ts"
STEPS = 6


def gpt() -> Any:
    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_embd": 16, "n_head": 2, "vocab_size": 32, "n_positions": 16}
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    )


def texts(count: int) -> list[dict[str, Any]]:
    of = torch.Generator().manual_seed(count)
    tokens = [torch.randint(32, (8,), generator=of) for _ in range(count)]
    return [{"input_ids": each, "labels": each} for each in tokens]


@pytest.fixture
def trainer(run: Path, tmp_path: Path) -> Any:
    def make(model: Any = None, *callbacks: Any, evaluation: Any = None, **options: Any) -> Any:
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"),
            **{
                "per_device_train_batch_size": 4,
                "max_steps": STEPS,
                "logging_steps": 1,
                "report_to": [],
                "disable_tqdm": True,
                "use_cpu": True,
                "save_strategy": "no",
                **options,
            },
        )
        return transformers.Trainer(
            model or gpt(),
            arguments,
            train_dataset=texts(24),
            eval_dataset=evaluation,
            callbacks=[*callbacks] or [TocsinCallback(run, save_interval=1)],
        )

    return make


def logged(trained: Any, key: str) -> list[float]:
    return [entry[key] for entry in trained.state.log_history if key in entry]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_accumulation_steps": 2},
        {"gradient_accumulation_steps": 4},  # of six batches: four, and the two that are left
        {"label_smoothing_factor": 0.1},  # then the model gives no loss
        {"bf16": True},
    ],
    ids=str,
)
def test_losses_are_those_that_the_trainer_reports(
    options: dict[str, Any], trainer: Any, run: Path
) -> None:
    trained = trainer(**options)
    trained.train()
    assert values(run, "loss") == pytest.approx(logged(trained, "loss"), rel=1e-5)
    assert len(values(run, "loss")) == STEPS
    assert values(run, "learning_rate_0") == pytest.approx(logged(trained, "learning_rate"))
    names = create_trial(str(run)).tensor_names()
    assert "GPT2LMHeadModel_transformer.h.0.attn.c_attn.weight" in names
    assert "gradient/GPT2LMHeadModel_transformer.h.1.mlp.c_fc.weight" in names
    assert "GPT2LMHeadModel_input_input_ids" in names
    assert (run / END_MARKER).exists()
    assert not any(
        module._forward_hooks or module._forward_pre_hooks for module in trained.model.modules()
    )


def test_saved_steps_name_the_checkpoints_of_the_trainer(trainer: Any, run: Path) -> None:
    trained = trainer(save_strategy="steps", save_steps=2)
    trained.train()
    files = indexes(run)
    named = [file.meta.checkpoint for file in files if file.meta]
    folder = f"{trained.args.output_dir}/checkpoint-"
    assert named[0] is None
    assert [(each.step, each.path) for each in named[1:5] if each] == [
        *[(1, f"{folder}2")] * 2,
        *[(3, f"{folder}4")] * 2,
    ]
    assert Path(f"{folder}4").is_dir()


def by_a_function(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    scores, true = outputs.logits.flatten(0, 1), labels.flatten()
    count = true.numel() if num_items_in_batch is None else num_items_in_batch
    return F.cross_entropy(scores, true, reduction="sum") / count


@pytest.mark.parametrize("accumulated", [1, 3])
def test_an_evaluation_has_the_unit_of_training(accumulated: int, trainer: Any, run: Path) -> None:
    trained = trainer(
        evaluation=texts(12),  # three batches, all of which count
        eval_strategy="steps",
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=accumulated,
    )
    trained.compute_loss_func = by_a_function
    trained.train()
    assert values(run, "loss") == pytest.approx(logged(trained, "loss"), rel=1e-4)
    evaluated = logged(trained, "eval_loss")
    assert values(run, "loss", Mode.EVAL) == pytest.approx(evaluated, rel=1e-4)


def test_a_loss_that_is_nan_is_seen_though_the_log_hides_it(trainer: Any, run: Path) -> None:
    class Breaking(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 3:
                with torch.no_grad():
                    kwargs["model"].transformer.wte.weight[:] = float("nan")

    trained = trainer(None, TocsinCallback(run, save_interval=1), Breaking())
    trained.train()
    assert not any(loss != loss for loss in logged(trained, "loss"))
    assert [loss != loss for loss in values(run, "loss")] == [False] * 3 + [True] * 3


def test_an_evaluation_is_one_step(trainer: Any, run: Path) -> None:
    trained = trainer(
        evaluation={"short": texts(8), "long": texts(20)},
        eval_strategy="steps",
        eval_steps=3,
        per_device_eval_batch_size=4,
    )
    trained.train()
    trial = create_trial(str(run))
    assert [trial.global_step(Mode.EVAL, step) for step in trial.steps(Mode.EVAL)] == [3, 4, 8, 9]
    for key in ("eval_short_loss", "eval_long_loss"):
        assert values(run, key, Mode.EVAL) == pytest.approx(logged(trained, key))
    found = trial.tensor_names(mode=Mode.EVAL)
    assert [name for name in found if name.startswith("eval_")] == [
        "eval_long_loss",
        "eval_short_loss",
    ]
    assert values(run, "loss") == pytest.approx(logged(trained, "loss"), rel=1e-5)


@pytest.mark.parametrize("largest", [False, True])
def test_the_largest_loss_is_not_the_best(trainer: Any, run: Path, largest: bool) -> None:
    trainer(
        evaluation=texts(8),
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="steps",
        save_steps=3,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=largest,
    ).train()
    names = create_trial(str(run)).tensor_names()
    assert any(name.startswith("contract/monitor_mode_reversed/") for name in names) is largest


@pytest.mark.parametrize(("warm_up", "expected"), [(500, True), (2, False)])
def test_a_warm_up_ends_before_the_training(
    trainer: Any, run: Path, warm_up: int, expected: bool
) -> None:
    trainer(warmup_steps=warm_up).train()
    names = create_trial(str(run)).tensor_names()
    assert any(name.startswith("contract/warmup_not_finished/") for name in names) is expected


def test_a_stop_ends_the_training(trainer: Any, run: Path) -> None:
    class Asking(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                (run / STOP).write_text(json.dumps({"requested_at": time.time() + 60}))
                end = time.monotonic() + PATIENCE
                while not callback._capture.should_stop:
                    assert time.monotonic() < end
                    time.sleep(0.005)

    callback = TocsinCallback(run, save_interval=1, poll_interval=0.01)
    trained = trainer(None, callback, Asking())
    trained.train()
    assert trained.state.global_step == 3
    assert create_trial(str(run)).steps(Mode.TRAIN) == [0, 1, 2]
    assert (run / END_MARKER).exists()


def test_a_checkpoint_takes_the_steps_up(trainer: Any, run: Path, tmp_path: Path) -> None:
    options = {
        "evaluation": texts(8),
        "eval_strategy": "steps",
        "eval_steps": 3,
        "save_strategy": "steps",
        "save_steps": 3,
    }
    first = trainer(**options)
    first.train()
    again = trainer(**options)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    trial = create_trial(str(run))
    assert trial.steps(Mode.TRAIN) == [*range(STEPS)]
    assert trial.steps(Mode.EVAL) == [0, 1]
    assert [trial.global_step(Mode.EVAL, step) for step in (0, 1)] == [3, 7]
    # Steps 3 to 5 are those of the second training.
    assert values(run, "loss")[3:] == pytest.approx(logged(again, "loss")[3:], rel=1e-5)


def test_an_exception_leaves_the_run_unfinished(trainer: Any, run: Path) -> None:
    class Failing(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                raise RuntimeError("the data are gone")

    callback = TocsinCallback(run, save_interval=1)
    with pytest.raises(RuntimeError, match="the data are gone"):
        trainer(None, callback, Failing()).train()
    callback._capture.close(finished=False)  # what the end of the process does
    assert create_trial(str(run)).steps() == [0, 1]
    assert not (run / END_MARKER).exists()


def test_what_goes_wrong_in_us_stays_with_us(
    trainer: Any, run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("a fault of ours")

    callback = TocsinCallback(run)
    monkeypatch.setattr(type(callback._capture), "open", broken)
    trained = trainer(None, callback)
    trained.train()
    assert trained.state.global_step == STEPS
    assert "a fault of ours" in caplog.text
