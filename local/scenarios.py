"""The scenarios of the demo, each a real run of a real program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tocsin.rules import RECOMMENDED, rule_names

Where = Literal["sagemaker", "process", "replay"]

_STOP = ["stop", "email", "sms", "metric"]


@dataclass(frozen=True)
class Scenario:
    """A training and its watch file.

    where: the place it runs in. A ``replay`` uploads the files of ``replayed`` one by one.
    arguments: of ``examples/digits_numpy.py``.
    shows_fleet: whether the dashboard's table of runs is shown at the end.
    machine: whether what is shown is the run of its machine.
    environment: variables of a training that is a ``process``.
    hyperparameters: of a SageMaker job.
    relaunched: whether the job is started again after its stop.
    """

    description: str
    where: Where
    arguments: Sequence[str] = ()
    planned_steps: int = 500
    watch: Mapping[str, Any] = field(default_factory=dict)
    replayed: str = ""
    shows_fleet: bool = False
    machine: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    relaunched: bool = False


def _watch(*stopping: str, stop: Sequence[str] = _STOP, **options: Any) -> dict[str, Any]:
    """All default rules; the ``stopping`` ones stop the job and notify everybody."""
    return {
        "rules": [
            {"rule": rule, "severity": "critical", "actions": stop} if rule in stopping else rule
            for rule in rule_names(RECOMMENDED)
        ],
        "actions": ["metric"],
        **options,
    }


# An API sample in Amazon's documentation has this threshold. Few gradients are above it.
_SAGEMAKER_SAMPLE = {"rule": "VanishingGradient", "parameters": {"threshold": "20.0"}}
_PACE = ("--save-interval", "5", "--seconds-per-step", "0.03")
_SHORT_MINUTES = {"TOCSIN_MINUTE": "2"}  # seconds
_MACHINE: dict[str, Any] = {"interval": "100ms"}
_STEADY = ("--seconds-per-step", "0.02")
_DEEP = ("--activation", "sigmoid", "--hidden", "32,32,32,32,32,32,32,32,32,32")

SCENARIOS: Mapping[str, Scenario] = {
    "diverging": Scenario(
        "a learning rate that is too high: the loss becomes NaN and the job is stopped",
        "sagemaker",
        ("--learning-rate", "5", "--seed", "1", *_PACE),
        watch=_watch("ExplodingTensor"),
    ),
    "relaunch": Scenario(
        "the diverging job is stopped, and continues from its last good checkpoint at a lower rate",
        "sagemaker",
        ("--seed", "1", "--checkpoint-interval", "20", *_PACE),
        watch=_watch(
            "ExplodingTensor",
            stop=["stop", "relaunch", "email", "sms", "metric"],
            relaunch={"attempts": 1, "hyperparameters": {"learning-rate": "x0.1"}},
        ),
        hyperparameters={"learning-rate": "5"},
        relaunched=True,
    ),
    "healthy": Scenario(
        "a training that goes well: it runs to its end, and nobody is notified",
        "sagemaker",
        _PACE,
        planned_steps=300,
        watch=_watch("ExplodingTensor", "VanishingGradient"),
    ),
    "vanishing": Scenario(
        "ten sigmoid layers: the first ones get almost no gradient",
        "sagemaker",
        (*_DEEP, *_PACE),
        watch=_watch("VanishingGradient"),
    ),
    "outside-sagemaker": Scenario(
        "a plain process outside SageMaker obeys STOP.json",
        "process",
        ("--learning-rate", "5", "--seed", "1", "--poll-interval", "0.5", *_PACE),
        watch=_watch("ExplodingTensor"),
    ),
    "slow-loader": Scenario(
        "a loader that the training waits for: the machine run says so (a minute lasts 2 s)",
        "process",
        ("--fault", "slow-loader", "--save-interval", "100", "--poll-interval", "0.5"),
        planned_steps=2000,
        watch=_watch("InputBottleneck", machine=_MACHINE),
        machine=True,
        environment=_SHORT_MINUTES,
    ),
    "hang": Scenario(
        "a training that hangs after 150 steps (a minute lasts 2 s)",
        "process",
        ("--fault", "hang", "--save-interval", "50", "--poll-interval", "0.5", *_STEADY),
        planned_steps=2000,
        watch=_watch("TrainingHung", machine=_MACHINE),
        machine=True,
        environment=_SHORT_MINUTES,
    ),
    "storm": Scenario(
        "20 rules fire at once, each after 10 violations: one e-mail, one SMS, one stop",
        "sagemaker",
        ("--seed", "1", *_PACE),
        watch={
            "rules": [
                {
                    "rule": "VanishingGradient",
                    "name": f"unreachable-{number:02}",
                    "parameters": {"threshold": 1e6 * number},
                    "for_steps": 10,
                    "actions": ["stop", "email", "sms"],
                }
                for number in range(1, 21)
            ],
            "notify": {"group_wait": "2s"},
        },
        shows_fleet=True,
    ),
    "replay": Scenario(
        "a run of two workers that Amazon's smdebug wrote is uploaded, file by file",
        "replay",
        planned_steps=0,
        watch={
            "profile": "sagemaker",
            "rules": ["ExplodingTensor", _SAGEMAKER_SAMPLE],
            "notify": {"group_wait": "1s"},
        },
        replayed="tests/fixtures/smdebug/multi_worker/run",
    ),
}
