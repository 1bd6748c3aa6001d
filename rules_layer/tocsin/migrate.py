"""From Amazon's Debugger: rule configurations as a watch file, settings of a training job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.installing import wheel
from tocsin.watch import BadWatch, Watch, encode_watch, read_watch, resolve, to_watch
from tocsin.watch.capture import plain_capture
from tocsin.watch.sagemaker import capture_from, from_debug_rule_configurations

RUN_TAG = "tocsin:run"
_PROFILER = ("ProfilerConfig", "ProfilerRuleConfigurations", "ProfilerRuleEvaluationStatuses")
_ELSEWHERE = {
    "RuleEvaluatorImage": "rules run in Tocsin, not in an image",
    "InstanceType": "rules need no instance",
    "VolumeSizeInGB": "rules need no instance",
    "LocalPath": "rules have no files of their own",
    "S3OutputPath": "rules write no files: see `tocsin status`",
}


class Converted(NamedTuple):
    """A watch file as plain data, and a line for each thing that it does not take over."""

    watch: dict[str, Any]
    left: list[str]


def convert(job: Any) -> Converted:
    """The Debugger's part of a training job, as CreateTrainingJob takes it, as a watch file.

    ``job`` may also be the list of DebugRuleConfigurations alone. Raises BadWatch.
    """
    job = {"DebugRuleConfigurations": job} if isinstance(job, list) else job
    if not isinstance(job, Mapping):
        raise BadWatch("expected a training job, or a list of DebugRuleConfigurations")
    configurations = job.get("DebugRuleConfigurations") or []
    hook = job.get("DebugHookConfig") or {}
    if not configurations and not hook:
        raise BadWatch("has neither DebugRuleConfigurations nor DebugHookConfig")
    if not isinstance(hook, Mapping) or not isinstance(configurations, list):
        raise BadWatch("DebugHookConfig must be a mapping, DebugRuleConfigurations a list")
    if any(not isinstance(each, Mapping) for each in configurations):
        raise BadWatch("DebugRuleConfigurations: each must be a mapping")
    watch = from_debug_rule_configurations(configurations)
    if hook.get("HookParameters") or hook.get("CollectionConfigurations"):
        capture = capture_from(hook.get("HookParameters"), hook.get("CollectionConfigurations"))
        watch["capture"] = plain_capture(capture)
    return Converted(watch, [*_left(job, configurations), *_refused(watch)])


def training_job_settings(watch: str | Path | Mapping[str, Any], run: str) -> dict[str, Any]:
    """What a SageMaker job needs to be watched, under the names of CreateTrainingJob.

    Tags: lets a rule stop the job, which must be tagged with its run.
    Environment: tells the hook where to write.
    RunFiles: to be written into the run before the job starts: its watch file.
    SourceFiles: to be put beside the training script, and beside the wheel, which they name.

    ``watch`` is a file, or its content. Raises BadWatch, OSError.

    >>> settings = training_job_settings(watch="watch.yaml", run="s3://bucket/vision/resnet-7")
    >>> Estimator(environment=settings["Environment"], tags=settings["Tags"])  # doctest: +SKIP
    """
    if not run.startswith("s3://"):
        raise BadWatch(f"{run}: a SageMaker job writes to s3://bucket/prefix")
    known: Watch = to_watch(watch) if isinstance(watch, Mapping) else read_watch(watch)
    return {
        "Tags": [{"Key": RUN_TAG, "Value": run.rstrip("/")}],
        "Environment": {"TOCSIN_RUN": run.rstrip("/")},
        "RunFiles": {"watch.json": encode_watch(known).decode()},
        "SourceFiles": {"requirements.txt": f"{wheel('aws')}\n"},
    }


def _left(job: Mapping[str, Any], configurations: list[Any]) -> Iterator[str]:
    for key in _PROFILER:
        if job.get(key):
            yield f"{key}: profiler rules are not taken over"
    if job.get("TensorBoardOutputConfig"):
        yield "TensorBoardOutputConfig: use `tocsin tensors RUN --export-tensorboard DIR`"
    for configuration in configurations:
        name = configuration.get("RuleConfigurationName", "a rule without a name")
        for key, why in _ELSEWHERE.items():
            if configuration.get(key):
                yield f"{name}: {key}: {why}"
        parameters = configuration.get("RuleParameters") or {}
        if isinstance(parameters, Mapping) and parameters.get("source_s3_uri"):
            yield f"{name}: source_s3_uri: put the file into a folder, named by custom_rules"


def _refused(watch: dict[str, Any]) -> Iterator[str]:
    """The rules that Tocsin does not have, or not with these parameters."""
    _, refused = resolve(to_watch(watch))
    for rule in refused:
        yield f"{rule.name}: {rule.reason}"
