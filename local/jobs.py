"""Runs training jobs as processes, as SageMaker runs them in containers."""

from __future__ import annotations

import json
import logging
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Condition, Thread, Timer
from typing import Any

from tocsin.parsing import job_name_fault

from local.job import LocalJob, Request
from local.reaper import Reaper

GRACE = 120.0  # seconds between SIGTERM and SIGKILL, as in SageMaker
FOLDER = "TOCSIN_LOCAL_FOLDER"
"""The variable of a request's Environment that names the folder in which the process starts."""

_LAST_LINES, _LAST_CHARACTERS = 10, 800  # of the log of a job that failed

_LOG = logging.getLogger(__name__)


class RequestError(Exception):
    """A request cannot be carried out; ``code`` is SageMaker's name for the error."""

    def __init__(self, message: str, code: str = "ValidationException") -> None:
        super().__init__(message)
        self.code = code


class LocalJobs:
    """All training jobs since the start. A context manager; its end ends every job.

    environment: of each process; the request's Environment overrides it.
    publish: called with the job after each change of its status, from one thread and in order.
    grace: the seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        reaper: Reaper,
        environment: Mapping[str, str],
        publish: Callable[[LocalJob], None],
        grace: float = GRACE,
    ) -> None:
        self._reaper = reaper
        self._folder = reaper.folder("jobs")
        self._environment = environment
        self._publish = publish
        self._grace = grace
        self._changed = Condition()
        self._jobs: dict[str, LocalJob] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._threads: list[Thread] = []
        self._publisher = ThreadPoolExecutor(1, "training-job-events")
        self._closing = False

    def __enter__(self) -> LocalJobs:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            processes = list(self._processes.values())
        for process in processes:
            self._reaper.finish(process)
        for thread in self._threads:
            thread.join()
        self._publisher.shutdown(cancel_futures=True)

    def get(self, name: str) -> LocalJob:
        """The job with that name. Raises RequestError if there is none."""
        with self._changed:
            if name not in self._jobs:
                raise RequestError("Requested resource not found.")
            return self._jobs[name]

    def all(self) -> list[LocalJob]:
        """All jobs, the oldest first."""
        with self._changed:
            return list(self._jobs.values())

    def wait(self, name: str, timeout: float) -> LocalJob:
        """Wait until the job has finished, at most ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.get(name).finished, timeout)
            return self.get(name)

    def create(self, request: Request) -> LocalJob:
        """Start a job. Raises RequestError for a name in use or a request without a command."""
        name, command = _checked(request)
        tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", [])}
        job = LocalJob(request, self._folder / name / "log", tags=tags)
        with self._changed:
            if name in self._jobs:
                raise RequestError(
                    "Training job names must be unique within an AWS account and region, and a "
                    f"training job with this name already exists ({self._jobs[name].arn})",
                    "ResourceInUse",
                )
            if self._closing:
                raise RequestError("the service is closing", "ServiceUnavailable")
            self._set(job.advanced("InProgress", "Starting", "Starting the training job"))
            thread = Thread(target=self._run, args=(name, command), daemon=True)
            thread.start()
            self._threads.append(thread)
            return self._jobs[name]

    def stop(self, name: str) -> None:
        """Send SIGTERM, then SIGKILL after the grace time. Raises RequestError if it has ended."""
        with self._changed:
            job = self.get(name)
            if job.status != "InProgress":
                raise RequestError(
                    f"The request was rejected because the training job is in status {job.status}."
                )
            self._stop(job, "Stopping the training job")

    def tag(self, arn: str, tags: Mapping[str, str]) -> Mapping[str, str]:
        """Add tags to the job with this ARN. Returns all its tags."""
        with self._changed:
            job = self.get(arn.rpartition("/")[2])
            job = self._jobs[job.name] = replace(job, tags={**job.tags, **tags})
            return job.tags

    def _stop(self, job: LocalJob, message: str) -> None:
        self._set(job.advanced("Stopping", "Stopping", message))
        if job.name in self._processes:
            self._terminate(self._processes[job.name])

    def _terminate(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        _after(self._grace, lambda: process.poll() is None and self._reaper.finish(process))

    def _expire(self, name: str) -> None:
        with self._changed:
            if (job := self._jobs[name]).status == "InProgress":
                limited = replace(job, stopped_as="MaxRuntimeExceeded")
                self._stop(limited, "Stopping after MaxRuntimeInSeconds")

    def _run(self, name: str, command: Sequence[str]) -> None:
        job = self.get(name)
        try:
            folder, environment = _prepared(job, self._environment)
            limit = float(job.request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 0))
            with self._changed:
                if self._closing:
                    raise OSError("the service is closing")
                process = self._reaper.start(
                    command,
                    environment=environment,
                    folder=Path(environment.get(FOLDER, folder)),
                    log=job.log,
                )
                self._processes[name] = process
                if (job := self._jobs[name]).status == "Stopping":
                    self._terminate(process)
                else:
                    self._set(job.advanced("InProgress", "Training", "Training in progress"))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            self._finish(name, None, f"ClientError: the job's process does not start: {error}")
            return
        timer = _after(limit, lambda: self._expire(name)) if limit else None
        process.wait()
        if timer:
            timer.cancel()
        code = self._reaper.finish(process)
        failure = f"AlgorithmError: the job's process failed, exit code: {code}"
        self._finish(name, code, f"{failure}{_last_lines(job.log)}")

    def _finish(self, name: str, code: int | None, failure: str) -> None:
        with self._changed:
            self._processes.pop(name, None)
            job = self._jobs[name]
            if job.status == "Stopping":
                secondary = job.stopped_as
                job = job.advanced("Stopped", secondary, "Training job stopped", exit_code=code)
            elif code == 0:
                job = job.advanced("Completed", "Completed", "Training job completed", exit_code=0)
            else:
                job = job.advanced("Failed", "Failed", failure, exit_code=code, failure=failure)
                _LOG.error("training job %s failed: %s", name, failure)
            self._set(job)

    def _set(self, job: LocalJob) -> None:
        self._jobs[job.name] = job
        self._changed.notify_all()
        if not self._closing:
            self._publisher.submit(self._publish, job).add_done_callback(_log_failure)


def _log_failure(published: Future[None]) -> None:
    if not published.cancelled() and (error := published.exception()):
        _LOG.error("a change of a training job's status was not published: %s", error)


def _checked(request: Request) -> tuple[str, list[str]]:
    name = request.get("TrainingJobName")
    if fault := job_name_fault(name):
        raise RequestError(f"TrainingJobName: {fault}")
    algorithm = request.get("AlgorithmSpecification") or {}
    entry = algorithm.get("ContainerEntrypoint")
    if not entry:
        raise RequestError(
            "AlgorithmSpecification.ContainerEntrypoint is missing: here a training job is a "
            "process, so give the command that the container would run"
        )
    return str(name), [*map(str, entry), *map(str, algorithm.get("ContainerArguments") or ())]


def _prepared(job: LocalJob, base: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """The job's folder, laid out like /opt/ml, and the environment of its process."""
    folder = job.log.parent
    config, model = folder / "input" / "config", folder / "model"
    config.mkdir(parents=True)
    model.mkdir()
    parameters: Mapping[str, Any] = job.request.get("HyperParameters") or {}
    (config / "hyperparameters.json").write_text(json.dumps(parameters))
    return folder, {
        "PYTHONUNBUFFERED": "1",  # as in SageMaker's containers: the log has lines in their order
        **base,
        **(job.request.get("Environment") or {}),
        **{f"SM_HP_{_variable(name)}": str(value) for name, value in parameters.items()},
        "SM_HPS": json.dumps(parameters),
        "SM_INPUT_CONFIG_DIR": str(config),
        "SM_MODEL_DIR": str(model),
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": job.arn,
    }


def _last_lines(log: Path) -> str:
    """The end of a job's output, each line on a line of its own; empty if it wrote nothing."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    text = "\n".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:].strip()
    return f"; its last lines:\n{text}" if text else ""


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def _after(seconds: float, action: Callable[[], object]) -> Timer:
    timer = Timer(seconds, action)
    timer.daemon = True
    timer.start()
    return timer
