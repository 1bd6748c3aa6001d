"""Checkpoints that earlier versions wrote."""

from __future__ import annotations

from typing import Any

import msgspec

from tocsin.events import timestamp
from tocsin.model import Mode
from tocsin.tensors import job_name

VERSION = 2
"""The version of the checkpoints that are written now."""

Json = dict[str, Any]


def upgraded(checkpoint: Json) -> Json:
    """Return the content of a checkpoint without a version, which has no field of the wire's
    names."""
    run, job = checkpoint["run"], job_name(checkpoint["run"])
    about = {"Run": run, "TrainingJobName": job}
    rules = {}
    for name, record in checkpoint.get("rules", {}).items():
        change = record.get("told")
        rest = {key: value for key, value in record.items() if key != "told"}
        rules[name] = rest | {"last_change": change and about | _change(change)}
    return checkpoint | {
        "version": VERSION,
        "rules": rules,
        "outbox": [about | _change(each) for each in checkpoint.get("outbox", ())],
        "summaries": [about | _summary(each) for each in checkpoint.get("summaries", ())],
        "refusals": [about | _refusal(each) for each in checkpoint.get("refusals", ())],
    }


def without_references(content: bytes) -> bytes:
    """Return a checkpoint without its references, which may hold a summary that was not yet checked
    when an earlier version decoded it: rules look back at one save less.
    """
    return msgspec.json.encode({**msgspec.json.decode(content), "references": {}})


def _change(old: Json) -> Json:
    violation = old.get("violation") or {}
    return {
        "RuleConfigurationName": old["name"],
        "Rule": old["rule"],
        "RuleEvaluationStatus": old["status"],
        "PreviousStatus": old["previous"],
        "StatusDetails": old["details"],
        "Severity": old["severity"],
        "Actions": old["actions"],
        "DryRun": old["dry_run"],
        "Step": old["step"],
        "Mode": Mode(old["mode"]).name,
        "ModeStep": old["mode_step"],
        "IndexLastModified": timestamp(old["index_modified"]),
        "RunId": old["run_id"],
        "DedupId": old["dedup_id"],
        "Sequence": old.get("sequence", 0),
        "Inhibits": old.get("inhibits", []),
        "Notify": _pascal(old.get("policy", {})),
        "Silences": [_silence(each) for each in old.get("silences", ())],
        "Worker": violation.get("worker"),
        "Tensor": violation.get("tensor"),
        "Reason": violation.get("reason"),
        "Evidence": violation.get("evidence", {}),
    }


def _summary(old: Json) -> Json:
    return {
        "Ending": old["ending"],
        "Sequence": old["sequence"],
        "Steps": {key: old[key] for key in ("evaluated", "first", "last")},
        "RuleEvaluationStatus": old["status"],
        "Notify": _pascal(old["policy"]),
        "Summary": old["policy"].get("summary", []),
        "DryRun": old["dry_run"],
        "RunId": old["run_id"],
        "DedupId": old["dedup_id"],
        "DebugRuleEvaluationStatuses": [_status(each) for each in old["statuses"]],
        "Silences": [_silence(each) for each in old.get("silences", ())],
    }


def _refusal(old: Json) -> Json:
    return {
        "Where": old["where"],
        "Detail": old["why"],
        "RunId": old["run_id"],
        "DedupId": old["dedup_id"],
    }


def _status(old: Json) -> Json:
    changed_at = old["changed_at"]
    return {
        "RuleConfigurationName": old["name"],
        "RuleEvaluationStatus": old["status"],
        "StatusDetails": old["details"],
        "LastModifiedTime": None if changed_at is None else timestamp(changed_at),
    }


def _silence(old: Json) -> Json:
    return _pascal({key: old[key] for key in ("until", "job", "author", "reason", "id")})


def _pascal(old: Json) -> Json:
    return {"".join(map(str.capitalize, key.split("_"))): value for key, value in old.items()}
