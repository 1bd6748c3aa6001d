"""From Amazon's Debugger: rule configurations as a watch file, settings of a training job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from reprlib import repr as short  # a text of a file may be long
from typing import Any, NamedTuple

from tocsin.installing import wheel
from tocsin.watch import BadWatch, Watch, encode_watch, read_watch, resolve, to_watch
from tocsin.watch.capture import plain_capture
from tocsin.watch.sagemaker import (
    WITHOUT_EFFECT,
    capture_from,
    from_debug_rule_configurations,
    is_custom,
    rule_parameters,
    stop_prefixes,
)

RUN_TAG = "tocsin:run"
_RULES = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
_INTERVAL = 500  # ms, where a job names none
_BETTER = {
    "BatchSize": "LowGPUUtilization of profile recommended finds idle GPUs, GPUMemoryNearLimit "
    "says how much memory is in use",
    "CPUBottleneck": "InputBottleneck says whether the training waits for data, and why",
    "Dataloader": "InputBottleneck judges the wait for data, and not the number of workers",
    "GPUMemoryIncrease": "MemoryLeak measures the memory in use, and says when it will be full",
    "IOBottleneck": "InputBottleneck finds slow storage in the network, too",
    "LoadBalancing": "GPUNotUsed and StragglingNode name the GPU and the machine",
    "LowGPUUtilization": "that of profile recommended leaves out evaluation and idle GPUs beside "
    "busy ones",
    "MaxInitializationTime": "the same in both profiles; TrainingHung finds what stops later",
    "StepOutlier": "StepTimeOutlier judges the last minutes, SlowerThanBefore whether steps "
    "get slower",
    "OverallFrameworkMetrics": "a section of `tocsin report`",
    "OverallSystemUsage": "a section of `tocsin report`",
    "ProfilerReport": "`tocsin report`; its rules are listed one by one",
    "CreateXgboostReport": "`tocsin report`, whatever the framework",
}
_ELSEWHERE = {
    "RuleEvaluatorImage": "rules run in Tocsin, not in an image",
    "InstanceType": "rules need no instance",
    "VolumeSizeInGB": "rules need no instance",
    "LocalPath": "rules have no files of their own",
    "S3OutputPath": "rules write no files: see `tocsin status`",
}


class Converted(NamedTuple):
    """A watch file as plain data, and a line for each thing that it does not take over.

    left: a key that has no effect is named once, whichever rules have it.
    better: a line for each of Amazon's rules in whose place something does better.
    """

    watch: dict[str, Any]
    left: list[str]
    better: list[str]


def convert(job: Any) -> Converted:
    """Return the Debugger's part of a training job, as CreateTrainingJob takes it, as a watch file.

    ``job`` may also be the list of DebugRuleConfigurations or of ProfilerRuleConfigurations alone.
    Raises BadWatch.
    """
    job = {"DebugRuleConfigurations": job} if isinstance(job, list) else job
    if not isinstance(job, Mapping):
        raise BadWatch("expected a training job, or a list of DebugRuleConfigurations")
    hook, profiler = (_mapping(job, key) for key in ("DebugHookConfig", "ProfilerConfig"))
    lists = {key: _configurations(job, key) for key in _RULES}
    configurations = [each for given in lists.values() for each in given]
    if not configurations and not hook and not profiler:
        raise BadWatch(f"has none of {', '.join(_RULES)}, DebugHookConfig and ProfilerConfig")
    watch = from_debug_rule_configurations(configurations)
    is_profiled = bool(lists["ProfilerRuleConfigurations"] or profiler)
    if is_profiled and not profiler.get("DisableProfiler"):
        watch["machine"] = _machine(profiler)
    if hook.get("HookParameters") or hook.get("CollectionConfigurations"):
        capture = capture_from(hook.get("HookParameters"), hook.get("CollectionConfigurations"))
        watch["capture"] = plain_capture(capture)
    left = [*_left(job, configurations), *_refused(watch)]
    return Converted(watch, left, list(_better(configurations, watch)))


def training_job_settings(watch: str | Path | Mapping[str, Any], run: str) -> dict[str, Any]:
    """Return the settings that a SageMaker job needs, with the names of CreateTrainingJob.

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
    if (job.get("ProfilerConfig") or {}).get("ProfilingParameters"):
        yield "ProfilingParameters: framework profiling ended with PyTorch 2.0; use `tocsin trace`"
    if job.get("TensorBoardOutputConfig"):
        yield "TensorBoardOutputConfig: use `tocsin tensors RUN --export-tensorboard DIR`"
    yield from _without_effect(configurations)
    for configuration in configurations:
        name = configuration.get("RuleConfigurationName", "a rule without a name")
        if is_custom(configuration):
            yield f"{name}: source_s3_uri: put the file into a folder, named by custom_rules"
    job_name = str(job.get("TrainingJobName", ""))
    for prefix in dict.fromkeys(each for found in configurations for each in stop_prefixes(found)):
        if not job_name.startswith(prefix):
            yield (
                f"StopTraining({short(prefix)}): the prefix: the action stop stops the job that is "
                "watched, and no other"
            )


def _without_effect(configurations: list[Any]) -> Iterator[str]:
    """Each key that changes nothing, once."""
    keys = {
        key for configuration in configurations for key, value in configuration.items() if value
    }
    parameters = {
        key
        for configuration in configurations
        if not is_custom(configuration)
        for key in rule_parameters(configuration)
    }
    for key, why in _ELSEWHERE.items():
        if key in keys:
            yield f"{key}: {why}"
    for key, why in WITHOUT_EFFECT.items():
        if any(each == key or each.endswith(f"_{key}") for each in parameters):
            yield f"{key}: {why}"


def _mapping(job: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = job.get(key) or {}
    if not isinstance(found, Mapping):
        raise BadWatch(f"{key} must be a mapping")
    return found


def _configurations(job: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = job.get(key) or []
    if not isinstance(found, list) or any(not isinstance(each, Mapping) for each in found):
        raise BadWatch(f"{key} must be a list of mappings")
    return found


def _machine(profiler: Mapping[str, Any]) -> dict[str, str]:
    interval = profiler.get("ProfilingIntervalInMilliseconds", _INTERVAL)
    if not isinstance(interval, int) or not 100 <= interval <= 60_000:
        raise BadWatch(
            f"ProfilingIntervalInMilliseconds is {short(interval)}, but must be from 100 to 60000"
        )
    return {"interval": f"{interval}ms"}


def _better(configurations: list[Any], watch: Mapping[str, Any]) -> Iterator[str]:
    asked = [str(rule_parameters(each).get("rule_to_invoke", "")) for each in configurations]
    for name in dict.fromkeys([*asked, *(rule["rule"] for rule in watch["rules"])]):
        if name in _BETTER:
            yield f"{name}: {_BETTER[name]}"


def _refused(watch: dict[str, Any]) -> Iterator[str]:
    """The rules that Tocsin does not have, or not with these parameters."""
    _, refused = resolve(to_watch(watch))
    for rule in refused:
        yield f"{rule.name}: {rule.reason}"
