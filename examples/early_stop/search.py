"""A search for hyperparameters with Optuna, in which each trial is a training job of SageMaker's.

    python search.py s3://BUCKET/search watch.yaml --trials 20 -- python train.py

Prints each trial as a line of JSON. A job that was stopped counts with the best accuracy that it
had until then. The trials are drawn at random, so a search with the same seed draws the same ones.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

import boto3
import numpy as np
import optuna
from tocsin import create_trial, modes
from tocsin.migrate import training_job_settings

SPACE = {
    "learning_rate": optuna.distributions.FloatDistribution(1e-4, 10, log=True),
    "weight_decay": optuna.distributions.FloatDistribution(1e-6, 0.03, log=True),
    "batch_size": optuna.distributions.CategoricalDistribution((8, 16, 32, 64)),
}
AT_ONCE = 2  # jobs


def start(run: str, args: argparse.Namespace, hyperparameters: Mapping[str, Any]) -> None:
    """Creates the job of a trial, which writes to ``run``: a folder with the name of the job."""
    settings = training_job_settings(watch=args.watch, run=run)
    bucket, _, prefix = run.removeprefix("s3://").partition("/")
    for file, text in settings["RunFiles"].items():
        boto3.client("s3").put_object(Bucket=bucket, Key=f"{prefix}/{file}", Body=text)
    boto3.client("sagemaker").create_training_job(
        TrainingJobName=name_of(run),
        AlgorithmSpecification={
            "TrainingImage": "none: on this machine a job is a process",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": args.command,
        },
        HyperParameters={key: str(value) for key, value in hyperparameters.items()},
        RoleArn="arn:aws:iam::000000000000:role/training",
        OutputDataConfig={"S3OutputPath": run},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 600},
        Environment={**settings["Environment"], "PYTHONPATH": os.environ["PYTHONPATH"]},
        Tags=settings["Tags"],
    )


def name_of(run: str) -> str:
    return run.rpartition("/")[2]


def finished(run: str) -> dict[str, Any]:
    """Waits for the end of a job. Returns its status, seconds, last saved step, best accuracy."""
    sagemaker, name = boto3.client("sagemaker"), name_of(run)
    ended = sagemaker.get_waiter("training_job_completed_or_stopped")
    ended.wait(TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 600})
    job = sagemaker.describe_training_job(TrainingJobName=name)
    trial = create_trial(run)
    accuracies = trial.tensor("accuracy").values(mode=modes.EVAL)
    return {
        "run": run,
        "status": job["TrainingJobStatus"],
        "seconds": (job["TrainingEndTime"] - job["TrainingStartTime"]).total_seconds(),
        "last_step": trial.steps(mode=modes.TRAIN)[-1],
        "accuracy": max(float(np.ravel(value)[0]) for value in accuracies.values()),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", help="where runs go: s3://bucket/prefix")
    parser.add_argument("watch", help="the watch file of all trials")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--step-seconds", type=float, default=0.02, help="no step is shorter")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("command", nargs="+", help="runs a trial")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.RandomSampler(seed=args.seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    more = {"steps": args.steps, "step_seconds": args.step_seconds}
    for first in range(0, args.trials, AT_ONCE):
        asked = [study.ask(SPACE) for _ in range(min(AT_ONCE, args.trials - first))]
        runs = [f"{args.out}/{name_of(args.out)}-{trial.number}" for trial in asked]
        for trial, run in zip(asked, runs, strict=True):
            start(run, args, {**trial.params, **more})
        for trial, run in zip(asked, runs, strict=True):
            outcome = finished(run)
            study.tell(trial, outcome["accuracy"])
            print(json.dumps({**outcome, **trial.params}), flush=True)


if __name__ == "__main__":
    main()
