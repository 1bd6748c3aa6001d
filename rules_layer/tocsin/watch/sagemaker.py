"""Amazon's DebugRuleConfigurations, ProfilerRuleConfigurations and DebugHookConfig, where every
value is a string.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as short  # a text of a file may be long
from typing import Any

import msgspec

from tocsin.watch.builtin_collections import ALL, DEFAULT, built_in
from tocsin.watch.capture import Config, convert, known_key, patterns, plain_section, section
from tocsin.watch.config import Capture, CollectionConfig
from tocsin.watch.errors import BadWatch

PROFILER_REPORT = "ProfilerReport"
REPORTED = (
    "BatchSize",
    "CPUBottleneck",
    "Dataloader",
    "GPUMemoryIncrease",
    "IOBottleneck",
    "LoadBalancing",
    "LowGPUUtilization",
    "MaxInitializationTime",
    "StepOutlier",
)
"""The rules that ProfilerReport ran, without those that never fire."""

REPORTS = frozenset({"CreateXgboostReport"})
"""Configurations that write a report and judge nothing: they become no rule."""

WITHOUT_EFFECT = {
    "scan_interval_us": "a rule judges each minute when it arrives",
    "opt_out_telemetry": "Tocsin sends no telemetry",
    "training_job_name_prefix": "the action stop stops the job that is watched, and no other",
}
"""Parameters that Amazon's rules take and that change nothing here, and why."""

_STOPS = "stop_training_on_fire"
_ACTIONS = {"stoptraining": "stop", "email": "email", "sms": "sms"}
_log = logging.getLogger("tocsin")


def from_debug_rule_configurations(configurations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rules as plain data of a watch file with profile ``sagemaker``.

    ProfilerRuleConfigurations have the same form. ProfilerReport becomes the rules that it ran,
    and CreateXgboostReport none. Parameters ``WITHOUT_EFFECT`` are left out.
    A configuration without ``rule_to_invoke`` becomes a rule without a name. It is refused when
    rules are built; the others are evaluated.
    """
    rules = [rule for item in configurations for rule in _reported(_rule(item))]
    return {
        "profile": "sagemaker",
        "rules": [rule for rule in rules if rule["rule"] not in REPORTS],
    }


def _reported(rule: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rules that a ProfilerReport ran, with its parameters ``RULE_PARAMETER``; others as they
    are.
    """
    if rule["rule"] != PROFILER_REPORT:
        yield rule
        return
    parameters: dict[str, dict[str, Any]] = {name: {} for name in REPORTED}
    names = {name.lower(): name for name in REPORTED}
    own: dict[str, Any] = {}
    for key, value in rule["parameters"].items():
        prefix, _, parameter = str(key).partition("_")
        if parameter in WITHOUT_EFFECT:
            continue
        if prefix.lower() in names and parameter:
            parameters[names[prefix.lower()]][parameter] = value
        else:
            own[key] = value
    report = rule.get("name", PROFILER_REPORT)
    yield {**rule, "parameters": own}
    for name, given in parameters.items():
        yield {**rule, "rule": name, "name": f"{report}-{name}", "parameters": given}


def _rule(configuration: Mapping[str, Any]) -> dict[str, Any]:
    parameters = dict(rule_parameters(configuration))
    rule: dict[str, Any] = {"rule": str(parameters.pop("rule_to_invoke", ""))}
    if name := configuration.get("RuleConfigurationName"):
        rule["name"] = str(name)
    if action_json := parameters.pop("action_json", None):
        rule["actions"] = actions(str(action_json))
    if is_custom(configuration):  # its parameters are its own
        return {**rule, "parameters": parameters}
    if str(parameters.pop(_STOPS, "")).strip().lower() == "true":
        rule["actions"] = list(dict.fromkeys([*rule.get("actions", ()), "stop"]))
    kept = {key: value for key, value in parameters.items() if key not in WITHOUT_EFFECT}
    return {**rule, "parameters": kept}


def rule_parameters(configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the RuleParameters of a configuration; empty where it has none."""
    found = configuration.get("RuleParameters")
    return found if isinstance(found, Mapping) else {}


def is_custom(configuration: Mapping[str, Any]) -> bool:
    """Return whether the rule of a configuration comes from a file of the user's."""
    return bool(rule_parameters(configuration).get("source_s3_uri"))


def stop_prefixes(configuration: Mapping[str, Any]) -> list[str]:
    """Return the prefixes of jobs that the configuration has stopped."""
    action_json = rule_parameters(configuration).get("action_json")
    items = _parsed(str(action_json)) if action_json else None
    found = [item.get("training_job_prefix") for item in items or () if isinstance(item, Mapping)]
    return [str(prefix) for prefix in found if prefix]


def actions(action_json: str) -> list[str]:
    """Return the actions in ``action_json``, in its plain or its backslash-escaped form.

    Unknown actions stay in the list, so that they are refused by name and not dropped.
    """
    items = _parsed(action_json)
    if items is None:
        return [f"unreadable action_json: {action_json.strip()[:80]}"]
    return [_action(item)[:512] or "unnamed" for item in items]


def _parsed(action_json: str) -> list[Any] | None:
    """The items of ``action_json``, which may be one or a list; None if it is not JSON."""
    text = action_json.strip()
    for candidate in (text, text.replace('\\"', '"')):
        try:
            parsed = msgspec.json.decode(candidate)
        except (ValueError, RecursionError):
            continue
        return parsed if isinstance(parsed, list) else [parsed]
    return None


def _action(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    name = str(item.get("name", "unnamed")).lower()
    endpoint = item.get("endpoint")
    action = _ACTIONS.get(name, name)
    return f"{action}:{endpoint}" if endpoint and action in ("email", "sms") else action


def capture_from(
    hook_parameters: Mapping[str, Any] | None,
    collections: Sequence[Mapping[str, Any]] | None = None,
    *,
    save_interval: int = 500,
) -> Capture:
    """HookParameters and CollectionConfigurations as CreateTrainingJob takes them.

    Defaults are those of smdebug: every ``save_interval`` steps (500; its hook for XGBoost had 10),
    one worker, and whole values of collections without ``reductions``, ``save_shape`` and
    ``save_raw_tensor``. Unknown keys are skipped with a warning. A collection that is not built in
    and has no ``include_regex`` holds what the script saves to it, which a warning says. Raises
    BadWatch for a value that cannot be used.

    >>> capture_from(
    ...     {"save_interval": "100", "include_workers": "all"},
    ...     [{"CollectionName": "gradients", "CollectionParameters": {"reductions": "mean,l2"}}],
    ... )
    """
    parameters = convert(hook_parameters or {}, dict[str, Any], "HookParameters")
    items = convert(collections or [], list[Any], "CollectionConfigurations")
    regex = parameters.pop("include_regex", None)
    capture = _section(parameters, Capture, "HookParameters")
    configs: dict[str, CollectionConfig] = {}
    for name, config in (_named(at, item) for at, item in enumerate(items)):
        configs[name] = _combined(configs[name], config) if name in configs else config
    for name, config in configs.items():
        if not (built_in(name) or patterns(config)):
            _log.warning(
                "CollectionConfigurations: %s has no include_regex: it contains only what the "
                "script saves to it by name",
                short(name),
            )
    if regex:
        more = _section({"include_regex": regex}, CollectionConfig, "HookParameters")
        configs[DEFAULT] = _combined(configs.get(DEFAULT, CollectionConfig()), more)
    if capture.save_all:
        configs.setdefault(ALL, CollectionConfig())
    if not _reduces(capture):
        configs = {name: _with_values(config) for name, config in configs.items()}
    return replace(
        capture,
        collections=configs,
        save_interval=capture.save_interval or save_interval,
        include_workers=capture.include_workers or "one",
    )


def _named(at: int, item: Any) -> tuple[str, CollectionConfig]:
    name = item.get("CollectionName") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not name:
        raise BadWatch(f"CollectionConfigurations[{at}] has no CollectionName")
    where = f"CollectionConfigurations[{short(name)}]"
    return name, _section(item.get("CollectionParameters") or {}, CollectionConfig, where)


def _section(content: Any, into: type[Config], where: str) -> Config:
    """A section as in a watch file; unknown keys are skipped with a warning."""
    if isinstance(content, Mapping):
        unknown = [key for key in content if key == "collections" or not known_key(key, into)]
        for key in unknown:
            _log.warning("%s: unknown key %s is skipped", where, short(key))
        content = {key: value for key, value in content.items() if key not in unknown}
    return section(content, into, where)


def _combined(first: CollectionConfig, second: CollectionConfig) -> CollectionConfig:
    """The second configuration overrides the first; patterns are added."""
    said = {**plain_section(first), **plain_section(second)}
    both = [*patterns(first), *patterns(second)]
    return section({**said, "include_regex": both}, CollectionConfig, "CollectionConfigurations")


def _reduces(config: Capture | CollectionConfig) -> bool:
    return (config.reductions, config.save_raw_tensor, config.save_shape) != (None, None, None)


def _with_values(config: CollectionConfig) -> CollectionConfig:
    return config if _reduces(config) else replace(config, save_raw_tensor=True)
