"""Amazon's DebugRuleConfigurations, where every value is a string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_ACTIONS = {"stoptraining": "stop", "email": "email", "sms": "sms"}


def from_debug_rule_configurations(configurations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same rules as a watch file in profile ``sagemaker`` has them.

    A configuration without ``rule_to_invoke`` gives a rule without a name, which is refused by
    name when the rules are built; the others are watched.
    """
    return {"profile": "sagemaker", "rules": [_rule(item) for item in configurations]}


def _rule(configuration: Mapping[str, Any]) -> dict[str, Any]:
    raw = configuration.get("RuleParameters")
    parameters = dict(raw) if isinstance(raw, Mapping) else {}
    rule: dict[str, Any] = {"rule": str(parameters.pop("rule_to_invoke", ""))}
    if name := configuration.get("RuleConfigurationName"):
        rule["name"] = str(name)
    if action_json := parameters.pop("action_json", None):
        rule["actions"] = actions(str(action_json))
    return {**rule, "parameters": parameters}


def actions(action_json: str) -> list[str]:
    """The actions in ``action_json``, in its plain or its backslash-escaped form, case kept.

    Unknown or unreadable ones stay in the list as they are, so that acting can refuse them by
    name instead of dropping them.
    """
    text = action_json.strip()
    for candidate in (text, text.replace('\\"', '"')):
        try:
            parsed = msgspec.json.decode(candidate)
        except (ValueError, RecursionError):
            continue
        items = parsed if isinstance(parsed, list) else [parsed]
        return [_action(item)[:512] or "unnamed" for item in items]
    return [f"unreadable action_json: {text[:80]}"]


def _action(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    name = str(item.get("name", "unnamed")).lower()
    endpoint = item.get("endpoint")
    action = _ACTIONS.get(name, name)
    return f"{action}:{endpoint}" if endpoint and action in ("email", "sms") else action
