"""Lines of common trainers: what counts, and which number has which name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.histories import BadHistory, reader_of
from tocsin.histories.printed import parsed

from .test_tables import curve, read


@pytest.mark.parametrize(
    ("line", "counters", "values"),
    [
        ("iter 7: loss 2.31, time 1000.12ms, mfu -100.00%", {"step": 7}, {"loss": 2.31}),
        ("step 250: train loss 2.5, val loss 2.6", {"step": 250}, {"val loss": 2.6}),
        (
            "I0101 12:00:00.0 123 solver.cpp:218] Iteration 100 (2.5 iter/s, 4s), loss = 1.25",
            {"step": 100},
            {"loss": 1.25},
        ),
        (
            "I0101 12:00:00.000000 123 solver.cpp:397]     Test net output #0: accuracy = 0.9",
            {},
            {"test/accuracy": 0.9},
        ),
        (
            "2018-07-30 14:23:38,806:INFO: - Eval metrics: accuracy: 0.51 ; loss: 1.25",
            {},
            {"eval/accuracy": 0.51, "eval/loss": 1.25},
        ),
        ("7 \ttrain loss=0.5 \tvalid loss=0.75", {"step": 7}, {"train loss": 0.5}),
        ("Epoch 3, val loss is 0.5, val mse is 0.25.", {"epoch": 3}, {"val loss": 0.5}),
        (
            " 3: 1234.5, 1200.5 avg loss, 0.001000 rate, 3.4 seconds, 64 images",
            {"step": 3},
            {"loss": 1200.5, "lr": 0.001},
        ),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", {"epoch": 1, "batch": 640}, {}),
        (
            "Epoch: [0][ 10/5005]\tTime 0.5 ( 0.6)\tLoss 6.9e+00 (7.0e+00)\tAcc@1  0.10 (  0.20)",
            {"epoch": 0, "batch": 10},
            {"Loss": 6.9, "Acc@1": 0.1},
        ),
        (
            "2020-02-14 03:22:53,663 - INFO - Epoch [1][50/7330]\tlr: 0.004, time: 0.9, loss: 2.5",
            {"epoch": 1, "batch": 50},
            {"lr": 0.004, "time": 0.9, "loss": 2.5},
        ),
        (
            "{'loss': 2.3, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.1}",
            {"epoch": 0.1},
            {"loss": 2.3, "learning_rate": 5e-05},
        ),
        (
            " iteration  10/ 500 | learning rate: 1.5E-04 | lm loss: 9.5E+00 | grad norm: 1.2 |",
            {"step": 10},
            {"lm loss": 9.5, "learning rate": 1.5e-4, "grad norm": 1.2},
        ),
        (
            "05-01 | INFO | train | epoch 001 | loss 9.1 | ppl 300.1 | num_updates 100 | lr 0.1",
            {"epoch": 1, "step": 100},
            {"train/loss": 9.1, "train/ppl": 300.1, "lr": 0.1},
        ),
        ("Epoch 5 Train Loss: 0.5 Val Acc: 87.5%", {"epoch": 5}, {"Val Acc": 87.5}),
        ("[000500/50000] X4K | loss 0.05 | batch 16", {"done": 500}, {"loss": 0.05}),
        ("Epoch 2, Loss: nan", {"epoch": 2}, {}),
        (
            "Epoch 3 Loss: 1.5 Top 1 Accuracy: 55.5 Top 5 Accuracy: 80.5",
            {"epoch": 3},
            {"Loss": 1.5, "Top1 Accuracy": 55.5, "Top5 Accuracy": 80.5},
        ),
        (
            "Epoch 3 top-1 acc 55.5 top-5 acc 80.5",
            {"epoch": 3},
            {"top-1 acc": 55.5, "top-5 acc": 80.5},
        ),
        (
            "step 3 Prec@1 55.5 (50.0) Prec@5 80.5 (75.0)",
            {"step": 3},
            {"Prec@1": 55.5, "Prec@5": 80.5},
        ),
        (
            "INFO:tensorflow:Saving dict for global step 500: eval_auc = 0.75, loss = 0.5",
            {"step": 500},
            {"eval_auc": 0.75, "eval/loss": 0.5},
        ),
        ("[3,    20] loss: 0.451", {"epoch": 3, "batch": 20}, {"loss": 0.451}),
        ("step 100 loss 2.31 foo 3", {"step": 100}, {"loss": 2.31, "foo": 3}),
        (
            "Epoch 2 Update 300 Cost 58.5 PD 0.25 UD 4.5",
            {"epoch": 2, "step": 300},
            {"Cost": 58.5, "PD": 0.25, "UD": 4.5},
        ),
        (
            "(epoch: 1, iters: 100, time: 0.5) G_L1: 2.5 D_real+fake: -28.5 Mean PSNR: 30.5dB",
            {"epoch": 1, "step": 100},
            {"G_L1": 2.5, "D_real+fake": -28.5, "Mean PSNR": 30.5},
        ),
        ("saved to /tmp/epoch_3.pt in 2.5s", {}, {}),
    ],
)
def test_a_line(line: str, counters: dict[str, float], values: dict[str, float]) -> None:
    found, named = parsed(line)
    assert found == counters
    assert {name: named[name] for name in values} == values


def test_lines_between_two_steps_belong_to_the_first(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(
        "".join(
            f"Iteration {at}, loss = {3 - at / 10}\r\n  Test net #0: accuracy = {at / 10}\r\n"
            for at in range(5)
        ).encode("utf-16")
    )
    storage, line = read(path)
    assert curve(storage, "loss") == {at: pytest.approx(3 - at / 10) for at in range(5)}
    assert curve(storage, "test/accuracy") == {at: pytest.approx(at / 10) for at in range(5)}
    assert "read as printed log: 5 steps by step" in line


def test_blocks_of_baselines(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    cells = ("| time/ |  |", "|    step | {1} |", "| train/ |  |", "|    loss | {0} |")
    block = "\n".join(("-----", *cells, "-----", ""))
    path.write_text("training...\n" + "".join(block.format(1 / at, 100 * at) for at in (1, 2, 4)))
    reader = reader_of(path)
    assert reader is not None
    found = [(s.name, s.step, s.value) for s in reader.read(pytest.fail) if s.name == "loss"]
    assert found == [("loss", 100, 1.0), ("loss", 200, 0.5), ("loss", 400, 0.25)]


@pytest.mark.parametrize(
    ("lines", "counter", "names"),
    [
        (
            (
                "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE ",
                "---  ------  ------------  --------  ------  ------",
                "  0       0          0.00     26.50    0.73    0.01",
                "  0     200         33.58    847.68   10.88    0.11",
                "  1     400         70.88    267.65   33.50    0.33",
            ),
            "step",
            {"LOSS TOK2VEC": 70.88, "LOSS NER": 267.65, "ENTS_F": 33.5, "SCORE": 0.33},
        ),
        (
            (
                "  epoch    train_loss    valid_acc     dur",
                "-------  ------------  -----------  ------",
                "      1        \x1b[36m0.6905\x1b[0m       0.5150  0.0461",
                "      2        \x1b[36m0.6648\x1b[0m       0.6050  0.0256",
            ),
            "epoch",
            {"train_loss": 0.6648, "valid_acc": 0.605, "dur": 0.0256},
        ),
        (
            (
                "|=====================================================|",
                "|  Epoch  |  Iteration  |  Mini-batch  |  Validation  |",
                "|         |             |     Loss     |   Accuracy   |",
                "|=====================================================|",
                "|       1 |           1 |       3.2166 |       20.00% |",
                "|       1 |           5 |       1.4265 |              |",
                "|       2 |          10 |       1.6979 |       33.33% |",
                "|=====================================================|",
            ),
            "Iteration",
            {"Mini-batch Loss": 1.6979, "Validation Accuracy": 33.33},
        ),
    ],
)
def test_a_table_that_is_printed(
    tmp_path: Path, lines: tuple[str, ...], counter: str, names: dict[str, float]
) -> None:
    """Of spaCy, skorch and MATLAB."""
    path = tmp_path / "train.log"
    path.write_text("\n".join(("Training on a CPU.", *lines, "Saved the pipeline", "")))
    run, line = read(path)
    assert f"steps by {counter} " in line
    assert {name: [*curve(run, name).values()][-1] for name in names} == pytest.approx(names)


def test_a_second_line_of_a_step_that_adds_to_the_first(tmp_path: Path) -> None:
    """What it overwrites beside its own loss, the time, does not make the step another one."""
    path = tmp_path / "log.txt"
    lines = (
        f"Epoch: {epoch} {name}_loss: {1 / (epoch + 1)} time: {second}s"
        for _ in range(2)
        for epoch in range(9)
        for second, name in enumerate("ab")
    )
    path.write_text("\n".join(lines))
    reader = reader_of(path)
    assert reader is not None
    scalars = [each for each in reader.read(pytest.fail) if each.name.endswith("loss")]
    assert {each.step for each in scalars} == set(range(9))


def test_a_line_that_sums_up_an_epoch_counts_no_step(tmp_path: Path) -> None:
    lines = "".join(
        f"epoch {epoch} - iter 1/2 - loss {4 - epoch:.4f}\n"
        f"epoch {epoch} - iter 2/2 - loss {3.5 - epoch:.4f}\n"
        f"EPOCH {epoch} done: loss {3.5 - epoch:.4f} - lr 0.1\n"
        f"DEV : loss {5 - epoch:.4f} - score 0.75\n"
        for epoch in (1, 2, 3)
    )
    path = tmp_path / "training.log"
    path.write_text(lines)
    run, line = read(path)
    assert curve(run, "loss") == {1: 3.0, 2: 2.5, 3: 2.0, 4: 1.5, 5: 1.0, 6: 0.5}
    assert curve(run, "dev/loss") == {2: 4.0, 4: 3.0, 6: 2.0}
    assert "3 values of rows without a step" in line


def test_numbers_of_each_class_after_the_last_epoch(tmp_path: Path) -> None:
    epochs = "".join(f"Epoch {epoch}/9 | Train Loss: {9 - epoch}\n" for epoch in range(1, 10))
    classes = "".join(f"  Class {number}: IoU=0.{number}\n" for number in range(1, 7))
    path = tmp_path / "train_log.txt"
    path.write_text(epochs + classes)
    assert curve(read(path)[0], "Train Loss") == {n: 9.0 - n for n in range(1, 10)}


def test_a_configuration_has_no_losses(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("MAX_ITER: 24000\nFOCAL_LOSS_ALPHA: 0.25\nFOCAL_LOSS_GAMMA: 2.0\n" * 2)
    with pytest.raises(BadHistory, match="not a table"):
        reader_of(path)


def test_lines_after_the_beginning_of_an_evaluation_are_of_it(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(
        "".join(
            f"[03.24.23|09:5{epoch}:11] Training epoch: {epoch}\n"
            f"[03.24.23|09:5{epoch}:31] \tmean_loss: {4 - epoch}\n"
            f"[03.24.23|09:5{epoch}:41] Eval epoch: {epoch}\n"
            f"[03.24.23|09:5{epoch}:51] \tmean_loss: {6 - epoch}\n"
            for epoch in range(4)
        )
    )
    run, _ = read(path)
    assert curve(run, "mean_loss") == {0: 4.0, 1: 3.0, 2: 2.0, 3: 1.0}
    assert curve(run, "eval/mean_loss") == {0: 6.0, 1: 5.0, 2: 4.0, 3: 3.0}


@pytest.mark.parametrize(
    ("before", "after", "prefix"),
    [
        ("testing in eval mode……\n", "Now continue training……\n", "testing/"),
        ("INFO:tensorflow:***** Running evaluation *****\n", "", "evaluation/"),
        ("Evaluating...\n", "", "evaluating/"),
        ("Start validation on the test set:\n", "", "validation/"),
        ("The validation set has no labels\n", "", ""),
        ("Validation took very long\n", "", ""),
        ("Evaluating...\nTraining goes on\n", "", ""),
    ],
)
def test_a_sentence_announces_an_evaluation(
    tmp_path: Path, before: str, after: str, prefix: str
) -> None:
    path = tmp_path / "log.txt"
    path.write_text(
        "".join(
            f"epoch: {epoch}, loss: {4 - epoch}\n{before}epoch: {epoch}, loss: {6 - epoch}\n{after}"
            for epoch in range(4)
        )
    )
    run, _ = read(path)
    if prefix:
        assert curve(run, "loss") == {0: 4.0, 1: 3.0, 2: 2.0, 3: 1.0}
        assert curve(run, f"{prefix}loss") == {0: 6.0, 1: 5.0, 2: 4.0, 3: 3.0}
    else:
        assert [*curve(run, "loss").values()] == [4, 6, 3, 5, 2, 4, 1, 3]


def test_an_evaluation_of_several_lines_that_a_sentence_announces(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(
        "".join(
            f"step {at}: loss = {9 - at}\n***** Eval results *****\n  loss = {19 - at}\n"
            f"  accuracy = 0.{at}\n"
            for at in range(1, 5)
        )
    )
    run, _ = read(path)
    assert curve(run, "loss") == {1: 8.0, 2: 7.0, 3: 6.0, 4: 5.0}
    assert curve(run, "eval/loss") == {1: 18.0, 2: 17.0, 3: 16.0, 4: 15.0}
    assert curve(run, "eval/accuracy") == {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}


def test_rows_without_a_loss_do_not_decide_what_counts(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    classes = "".join(f"{name}: precision: 0.5; recall: 0.25\n" for name in ("PER", "LOC", "ORG"))
    path.write_text(
        "".join(f"Iter: {at} | Train Loss: {9 - at / 100}\n{classes}" for at in range(0, 900, 100))
    )
    run, line = read(path)
    assert curve(run, "Train Loss") == {at: 9 - at / 100 for at in range(0, 900, 100)}
    assert "9 steps by step" in line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Model is improving ppl: inf --> 5.45.", {}),
        ("epoch 3: learning rate 0.001 -> 0.0001, loss 0.5", {"loss": 0.5}),
        ("INFO:absl:  name = crf_loss/transition:0, shape = (9, 9)", {}),
        ("  ep007 loss=0.25 std=0.5", {"loss": 0.25, "std": 0.5}),
        ("epoch 1, phase train, step 10, loss_train, 0.75", {"loss_train": 0.75}),
        ("Saved new best model at epoch 3 with val loss 0.5", {}),
        ("Epoch 3 loss: 0.25, val loss: 0.5 <- best", {"loss": 0.25, "val loss": 0.5}),
        ("Epoch 3 loss 0.25 | train 3.5s | Acc 90.5%", {"loss": 0.25, "Acc": 90.5}),
        (
            "12:00:00.000 [main] INFO ScoreIterationListener - Score at iteration 100 is 0.75",
            {"loss": 0.75},
        ),
        (
            "Epoch(val) [10][2/6]  eta: 0:00:07  time: 1.5  data_time: 1.25",
            {"val/time": 1.5, "val/data_time": 1.25},
        ),
    ],
)
def test_what_is_no_value_or_no_name(line: str, expected: dict[str, float]) -> None:
    assert parsed(line)[1] == expected


def test_a_configuration_that_is_printed_twice_is_no_history(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    printed = "MODEL:\n  DROPOUT: 0.1\n  GAUSSIAN_ERROR: 0.25\n"
    path.write_text(f"Starting from epoch 0\n{printed}Starting from iteration 0\n{printed}")
    with pytest.raises(BadHistory, match="neither a run nor a history"):
        reader_of(path)


@pytest.mark.parametrize("updates", [[99], [1, 50, 99]])
def test_bars_of_keras(tmp_path: Path, updates: list[int]) -> None:
    """The last update of a bar that a file keeps beside the full one is left out; a bar whose
    updates are all there is a curve."""
    path = tmp_path / "train.log"
    path.write_text(
        "".join(
            f"Epoch {epoch}/5\n"
            + "".join(f"{at}/100 [===>...] - ETA: 1s - loss: {9 - epoch}.5\n" for at in updates)
            + f"100/100 [=======] - 2s 20ms/step - loss: {9 - epoch} - val_loss: {9 - epoch}\n"
            for epoch in range(1, 6)
        )
    )
    run, line = read(path)
    losses = [*curve(run, "loss").values()]
    if len(updates) == 1:
        assert losses == [8.0, 7.0, 6.0, 5.0, 4.0]
        assert "5 steps by epoch (1–5)" in line
    else:
        assert len(losses) == 20
    assert [*curve(run, "val_loss").values()] == [8.0, 7.0, 6.0, 5.0, 4.0]


def test_a_bar_that_breaks_off_counts(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    bars = [f"{100 if at < 3 else 40}/100 [==>..] - ETA: 1s - loss: {4 - at}\n" for at in range(4)]
    path.write_text("".join(f"Epoch {at + 1}/9\n{bar}" for at, bar in enumerate(bars)))
    run, _ = read(path)
    assert [*curve(run, "loss").values()] == [4.0, 3.0, 2.0, 1.0]
