"""The callback in real fits: what it captures is what the Trainer has seen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from tocsin import Mode, create_trial
from tocsin.tensors import STOP
from tocsin_hooks import Hook
from tocsin_hooks.lightning import TocsinCallback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.frameworks.in_torch.runs import indexes, values
from tests.waiting import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore")
END_MARKER = "training_job_end.ts"


class Classifier(pl.LightningModule):
    """``calls``: whether ``training_step`` calls the module itself, or a part of it."""

    def __init__(self, *, calls: bool = True) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self._calls = calls
        self.losses: list[float] = []
        self.validated: list[list[float]] = []

    def forward(self, x: Any) -> Any:
        return self.net(x)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        loss = F.cross_entropy(self(x) if self._calls else self.net(x), y)
        self.log("accuracy", torch.tensor(batch_idx / 8), on_step=True)
        self.losses.append(loss.item())
        return loss

    def on_validation_epoch_start(self) -> None:
        self.validated.append([])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.validated[-1].append(loss.item())
        self.log("val_loss", loss)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data(examples: int) -> Any:
    of = torch.Generator().manual_seed(examples)
    x = torch.randn(examples, 4, generator=of)
    return DataLoader(TensorDataset(x, torch.randint(3, (examples,), generator=of)), batch_size=4)


def trainer(*callbacks: Any, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    kept = {"enable_checkpointing": False, "max_epochs": 2, "accelerator": "cpu", "devices": 1}
    return pl.Trainer(callbacks=list(callbacks), **(quiet | kept | options))


@pytest.fixture
def fitted(run: Path) -> Any:
    def fit(model: Any, **options: Any) -> Any:
        trained = trainer(TocsinCallback(run, save_interval=1), **options)
        trained.fit(model, data(24), data(8))
        return trained

    return fit


@pytest.mark.parametrize("calls", [True, False], ids=["calls itself", "calls a part"])
def test_a_fit(calls: bool, fitted: Any, run: Path) -> None:
    model = Classifier(calls=calls)
    fitted(model)
    assert values(run, "loss") == pytest.approx(model.losses)
    assert values(run, "accuracy") == pytest.approx([step % 6 / 8 for step in range(12)])
    names = set(create_trial(str(run)).tensor_names(mode=Mode.TRAIN))
    assert {"Classifier_net.0.weight", "gradient/Classifier_net.2.bias", "learning_rate"} <= names
    assert {"net.1_output_0", "net.1_input_0"} <= names
    assert {"Classifier_input_0", "net_input_0"} & names == {
        "Classifier_input_0" if calls else "net_input_0"
    }
    assert {"Classifier_input_1", "net_input_1"}.isdisjoint(names)  # labels are no inputs
    assert "samples" in names
    assert (run / END_MARKER).exists()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_saved_steps_name_the_checkpoints_of_the_trainer(
    fitted: Any, run: Path, tmp_path: Path
) -> None:
    kept = pl.callbacks.ModelCheckpoint(tmp_path / "ckpt", every_n_train_steps=4, save_top_k=-1)
    trained = trainer(TocsinCallback(run, save_interval=1), kept, enable_checkpointing=True)
    trained.fit(Classifier(), data(24))
    files = indexes(run)
    named = {file.step: file.meta.checkpoint for file in files if file.meta}
    last = named[11]
    assert last is not None
    assert last.step == 7
    assert last.path.startswith(str(tmp_path / "ckpt"))
    assert Path(last.path).is_file()


def test_a_loss_by_hand_is_compared_and_checked(fitted: Any, run: Path) -> None:
    class ByHand(Classifier):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return (self(batch[0])[:, :1] - batch[1].float()).square().mean()  # (N, 1) - (N)

    fitted(ByHand())
    names = create_trial(run).tensor_names()
    assert "loss/skill" in names
    assert any(name.startswith("contract/broadcast_difference/test_lightning.py") for name in names)


class Autoencoder(pl.LightningModule):
    """Its parts are called, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        found = self.decoder(self.encoder(batch[0]))
        return 3 * ((found - batch[0]) ** 2).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_parts_that_are_called_one_after_the_other(run: Path) -> None:
    trainer(TocsinCallback(run, save_interval=1)).fit(Autoencoder(), data(24))
    names = set(create_trial(run).tensor_names())
    assert {"encoder_input_0", "samples", "spread/encoder_output_0", "loss/skill"} <= names
    assert "decoder_input_0" not in names  # a latent is no sample


def test_a_training_step_that_returns_nothing(run: Path) -> None:
    class Forgetful(Classifier):
        def training_step(self, batch: Any, batch_idx: int) -> None:
            super().training_step(batch, batch_idx)

    trainer(TocsinCallback(run, save_interval=1), max_epochs=4).fit(Forgetful(), data(24))
    broken = [name for name in create_trial(run).tensor_names() if name.startswith("contract/")]
    assert [name.rpartition(":")[0] for name in broken] == [
        "contract/training_step_returns_none/test_lightning.py"
    ]


@pytest.mark.parametrize(
    ("stopping", "schedule", "expected"),
    [("min", "min", False), ("max", "min", True), ("min", "max", True)],
)
def test_the_largest_loss_is_not_the_best(
    stopping: str, schedule: str, expected: bool, run: Path
) -> None:
    class Scheduled(Classifier):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            falls = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, schedule)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": falls, "monitor": "val_loss"},
            }

    stops = pl.callbacks.EarlyStopping("val_loss", mode=stopping, patience=9)
    trainer(TocsinCallback(run, save_interval=1), stops).fit(Scheduled(), data(24), data(8))
    broken = [name for name in create_trial(run).tensor_names() if name.startswith("contract/")]
    place = "contract/monitor_mode_reversed/test_lightning.py"
    assert [name.rpartition(":")[0] for name in broken] == [place] * expected


@pytest.mark.parametrize(
    ("interval", "steps", "expected"),
    [("epoch", 30, True), ("step", 30, False), ("epoch", 5, False), ("epoch", 90, False)],
)
def test_a_schedule_that_counts_updates_is_stepped_with_each(
    interval: str, steps: int, expected: bool, run: Path
) -> None:
    class Scheduled(Classifier):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            cycle = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
            return [optimizer], [{"scheduler": cycle, "interval": interval}]

    fit = trainer(TocsinCallback(run, save_interval=1), max_epochs=5).fit
    fit(Scheduled(), data(24))  # six batches
    names = create_trial(run).tensor_names()
    assert (
        any(name.startswith("contract/scheduler_stepped_per_epoch") for name in names) is expected
    )


@pytest.mark.parametrize("steps", [False, True])
def test_a_schedule_by_hand_is_stepped(steps: bool, run: Path) -> None:
    class ByHand(Classifier):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            self.optimizers().zero_grad()
            self.manual_backward(super().training_step(batch, batch_idx))
            self.optimizers().step()

        def on_train_epoch_end(self) -> None:
            if steps:
                self.lr_schedulers().step()

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]

    trainer(TocsinCallback(run, save_interval=1), max_epochs=4).fit(ByHand(), data(24))
    names = create_trial(run).tensor_names()
    place = "contract/scheduler_not_stepped/test_lightning.py"
    assert any(name.startswith(place) for name in names) is not steps


def test_a_validation_is_one_step_and_the_sanity_check_is_none(fitted: Any, run: Path) -> None:
    model = Classifier()
    fitted(model, num_sanity_val_steps=2)
    _sanity, *validated = model.validated
    means = [sum(each) / len(each) for each in validated]
    assert values(run, "val_loss", Mode.EVAL) == pytest.approx(means)
    trial = create_trial(str(run))
    assert [trial.global_step(Mode.EVAL, step) for step in trial.steps(Mode.EVAL)] == [6, 13]
    found = trial.tensor_names(mode=Mode.EVAL)
    assert "net.1_output_0" in found
    assert not [name for name in found if name.endswith("_0_1")]  # of its first batch only


def test_accumulated_batches_are_one_step(fitted: Any, run: Path) -> None:
    model = Classifier()
    fitted(model, accumulate_grad_batches=4)  # six batches: four, and the two that are left
    first, second = model.losses[:6], model.losses[6:]
    groups = [first[:4], first[4:], second[:4], second[4:]]
    assert values(run, "loss") == pytest.approx([sum(each) / len(each) for each in groups])


def test_a_validation_has_the_unit_of_accumulated_batches(fitted: Any, run: Path) -> None:
    model = Classifier()
    fitted(model, accumulate_grad_batches=4, num_sanity_val_steps=0)
    first = [each[0] for each in model.validated]  # of several batches the first is looked at
    assert values(run, "loss", Mode.EVAL) == pytest.approx(first)


def test_manual_optimization(fitted: Any, run: Path) -> None:
    class Manual(Classifier):
        automatic_optimization = False

        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            return {"loss": loss.detach()}

    model = Manual()
    fitted(model)
    assert values(run, "loss") == pytest.approx(model.losses)
    assert "gradient/Manual_net.0.weight" in create_trial(str(run)).tensor_names()


def test_mixed_precision(fitted: Any, run: Path) -> None:
    model = Classifier()
    fitted(model, precision="bf16-mixed")
    assert values(run, "loss") == pytest.approx(model.losses)


def test_a_stop_ends_the_fit(run: Path) -> None:
    class Stopping(Classifier):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if self.trainer.global_step == 3:
                request = {"requested_at": time.time() + 60, "rule": "Overfit"}
                (run / STOP).write_text(json.dumps(request))
                wait_until(lambda: callback._capture.should_stop)

    callback = TocsinCallback(run, save_interval=1, poll_interval=0.01)
    trained = trainer(callback)
    trained.fit(Stopping(), data(24), data(8))
    assert trained.global_step == 4
    assert trained.should_stop
    assert create_trial(str(run)).steps(Mode.TRAIN) == [0, 1, 2, 3]


def wait_until(true: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_the_run_unfinished(
    error: type[BaseException], fitted: Any, run: Path
) -> None:
    class Failing(Classifier):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if self.trainer.global_step == 3:
                raise error("the data are gone")
            return super().training_step(batch, batch_idx)

    with pytest.raises(RuntimeError if error is RuntimeError else SystemExit):
        fitted(Failing())
    assert create_trial(str(run)).steps(Mode.TRAIN) == [0, 1, 2]
    assert not (run / END_MARKER).exists()


def test_a_checkpoint_takes_the_steps_up(run: Path, tmp_path: Path) -> None:
    kept = trainer(TocsinCallback(run, save_interval=1), enable_checkpointing=True, max_epochs=1)
    kept.fit(Classifier(), data(24), data(8))
    kept.save_checkpoint(tmp_path / "checkpoint.ckpt")
    again = trainer(TocsinCallback(run, save_interval=1), max_epochs=2)
    again.fit(Classifier(), data(24), data(8), ckpt_path=tmp_path / "checkpoint.ckpt")
    trial = create_trial(str(run))
    assert trial.steps(Mode.TRAIN) == [*range(12)]
    assert trial.steps(Mode.EVAL) == [0, 1]
    starts = [index.meta.resumed_from for index in indexes(run) if index.meta]
    assert starts == [None] * 7 + [6] * 7


def test_what_goes_wrong_in_us_stays_with_us(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("a fault of ours")

    model = Classifier()
    callback = TocsinCallback(run)
    monkeypatch.setattr(type(callback._capture), "begin", broken)
    monkeypatch.setattr(type(callback._capture), "save_scalars", broken)
    trained = trainer(callback)
    trained.fit(model, data(24), data(8))
    assert trained.global_step == len(model.losses) == 12
    assert "a fault of ours" in caplog.text


def test_a_hook_that_is_given_stays_open(run: Path) -> None:
    with Hook(run, save_interval=1) as hook:
        trainer(TocsinCallback(hook)).fit(Classifier(), data(24), data(8))
        assert not (run / END_MARKER).exists()
        assert hook.position["TRAIN"] == 12
    assert (run / END_MARKER).exists()


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning writes checkpoints to where it is."""
    monkeypatch.chdir(tmp_path)


def test_two_processes_are_two_workers(run: Path) -> None:
    root = Path(__file__).parents[3]
    paths = os.pathsep.join(str(root / folder) for folder in ("rules_layer", "hooks"))
    script = Path(__file__).parent / "scripts" / "lightning_ddp.py"
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    ended = subprocess.run(
        [sys.executable, *torchrun, str(script), str(run)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    said = re.findall(r"rank (\d) (\d+\.\d+)", ended.stdout)  # lines of two may run together
    tensor = create_trial(str(run)).tensor("loss")
    for rank in ("0", "1"):
        worker = f"worker_{rank}"
        saved = [float(tensor.value(step, worker=worker)) for step in tensor.steps()]
        assert saved == pytest.approx([float(loss) for of, loss in said if of == rank])
    assert len({index.meta.run_id for index in indexes(run) if index.meta}) == 1
