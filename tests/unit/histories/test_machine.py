"""Which columns of a history are about the machine."""

from __future__ import annotations

import pytest
from tocsin.histories import GPU, STEP, WAIT
from tocsin.histories.machine import Measured, measured_columns
from tocsin.histories.names import is_loss
from tocsin.histories.scalar import Scalar


def columns(*names: str, values: tuple[float, ...] = (2.0, 1.5, 1.9)) -> dict[str, Measured]:
    return measured_columns(
        Scalar(name, step, value) for step, value in enumerate(values) for name in names
    )


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("step_time iter_time batch_time time/iter sec_per_step epoch_time perf/stepTime", STEP),
        ("data_time dataloader_time data_loading_time time_data data_wait train/data_time", WAIT),
        ("gpu_util gpu0_utilization gpu/util system.gpu.0.gpu GPU_usage", GPU),
        ("time runtime total_time update uptime steps_per_sec gpu_memory input batch_size", None),
    ],
)
def test_kinds_by_names(names: str, kind: str | None) -> None:
    found = {name: column.kind for name, column in columns(*names.split()).items()}
    assert found == ({} if kind is None else dict.fromkeys(names.split(), kind))


def test_numbers_that_do_not_fit_the_name() -> None:
    rising = tuple(float(at) for at in range(7))
    assert columns("step_time", values=rising) == {}  # a clock
    assert columns("gpu_util", values=(0.2, 0.9)) == {}  # a share
    assert columns("gpu_util", values=(20.0, 190.0)) == {}
    assert columns("step_time", values=(1.0, -1.0)) == {}
    assert columns("step_time", values=(float("nan"),)) == {}


def test_milliseconds_are_seconds() -> None:
    assert columns("step_time_ms", "ms_per_iter") == {
        "step_time_ms": Measured(STEP, 1e-3),
        "ms_per_iter": Measured(STEP, 1e-3),
    }


def test_costs_of_paddle_are_durations_and_no_losses() -> None:
    rows = [
        Scalar(name, step, value)
        for step in range(9)
        for name, value in (("avg_reader_cost", 0.01), ("avg_batch_cost", 0.5), ("loss", 2.0))
    ]
    kinds = {name: column.kind for name, column in measured_columns(rows).items()}
    assert kinds == {"avg_reader_cost": "wait", "avg_batch_cost": "step"}
    assert not is_loss("avg_batch_cost")
