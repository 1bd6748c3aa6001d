"""The options of a deployment, read from CDK context: ``cdk.json`` or ``-c key=value``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from tocsin.aws.settings import STAGE_PATTERN, Names
from tocsin.parsing import (
    DEFAULT_STOP_LIMIT,
    email_fault,
    phone_fault,
    webhook_name_fault,
)

from tocsin_cdk.option_parsers import (
    OptionError,
    Parser,
    allowed_fault,
    by_function,
    cap,
    each,
    file,
    flag,
    matching,
    member_roles,
    one_of,
    prefix,
    prices,
    role_fault,
    stop_guard,
    tags,
)

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_KEY_ARN = r"arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+"
_MOST_TEXT = 3000  # characters of all recipients: the environment of act has at most 4 KiB

# CloudWatch Logs accepts only these numbers of days.
_RETENTIONS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)


# A new account may run 10 invocations at a time: one of patrol fits beside these. Otherwise a
# function could be throttled until its messages become dead letters. A replay is rare, and waits.
_CONCURRENCY: Mapping[str, int] = {"evaluate": 5, "act": 2, "report": 2, "replay": 1}
_MEMORY: Mapping[str, int] = {  # MB
    "evaluate": 1024,
    "act": 512,
    "patrol": 256,
    "report": 1769,
    "replay": 1769,  # a whole vCPU: nobody waits for one of many runs, but pays for its seconds
    "relaunch": 256,
}
_LEAST_MEMORY = {
    "evaluate": 512,
    "act": 256,
    "patrol": 128,
    "report": 1024,
    "replay": 512,
    "relaunch": 128,
}
_LEAST_CONCURRENCY = {**dict.fromkeys(_CONCURRENCY, 2), "replay": 1}  # SQS allows none below 2


@dataclass(frozen=True)
class DeploymentOptions:
    """The options of a deployment, each valid; docs/options.md describes them.

    capture_prefix: empty, or ends with a slash.
    watch_file: an existing file.
    webhooks: names only; their URLs and secrets are SSM parameters.
    stop_guard: the most runs of one owner that may be stopped within a time.
    stop_ceiling: the most runs of all; empty: five times as many.
    sms_run_cap: the most SMS of one run in a month; None: a quarter of the deployment's.
    email_run_cap, webhook_run_cap: the most e-mails, and posts to webhooks, of one run in a day.
    metric_run_cap: the most metrics of one run.
    concurrency: the most invocations at a time, by function.
    memory: in MB, by function.
    member_roles: the roles in other accounts by which their jobs are described and stopped, each
        with the prefixes below ``capture_prefix`` that its account may write.
    relaunch: the roles of training jobs that may be started again; empty: none is.
    stage: of the names; empty for the plain ones.
    tags: of every resource.
    prices: US dollars per hour, by type of instance.
    local_python: an existing interpreter; the layer is installed for it instead of for Lambda.
    """

    stage: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    concurrency: Mapping[str, int] = field(default_factory=lambda: _CONCURRENCY)
    memory: Mapping[str, int] = field(default_factory=lambda: _MEMORY)
    member_roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    relaunch: tuple[str, ...] = ()
    capture_bucket: str | None = None
    capture_prefix: str = ""
    capture_key_arn: str | None = None
    emails: tuple[str, ...] = ()
    phones: tuple[str, ...] = ()
    alarm_emails: tuple[str, ...] = ()
    watch_file: Path | None = None
    allowed_recipients: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    sms_monthly_cap: int = 100
    stop_guard: str = DEFAULT_STOP_LIMIT
    stop_ceiling: str = ""
    sms_run_cap: int | None = None
    email_run_cap: int = 100
    metric_run_cap: int = 100
    webhook_run_cap: int = 100
    architecture: str = "arm64"
    job_metrics: bool = True
    retain_days: int = 90
    local_python: Path | None = None

    @property
    def names(self) -> Names:
        """The names of the deployment that others use."""
        return Names(self.stage)

    @property
    def member_accounts(self) -> Mapping[str, tuple[str, ...]]:
        """The accounts of ``member_roles``, each with the prefixes that it may write."""
        return {
            role.split(":")[4]: tuple(self.capture_prefix + each for each in prefixes)
            for role, prefixes in sorted(self.member_roles.items())
        }

    @property
    def member_settings(self) -> tuple[str, ...]:
        """``member_roles`` as the functions read it."""
        return tuple(
            f"{role}={self.capture_prefix}{each}"
            for role, prefixes in self.member_roles.items()
            for each in prefixes
        )

    @property
    def price_settings(self) -> tuple[str, ...]:
        """``prices`` as the function reads it."""
        return tuple(f"{kind}={price}" for kind, price in self.prices.items())

    @property
    def recipients(self) -> tuple[str, ...]:
        """The recipients that a rule may name: those allowed, and those that get all alerts."""
        return (*self.allowed_recipients, *self.emails, *self.phones)


class OptionValues(TypedDict, total=False):
    """The options as keywords of the construct; each value as in ``cdk.json``."""

    capture_bucket: str
    capture_prefix: str
    capture_key_arn: str
    emails: list[str]
    phones: list[str]
    alarm_emails: list[str]
    watch_file: str | Path
    allowed_recipients: list[str]
    webhooks: list[str]
    sms_monthly_cap: int
    stop_guard: str
    stop_ceiling: str
    sms_run_cap: int
    email_run_cap: int
    metric_run_cap: int
    webhook_run_cap: int
    architecture: str
    job_metrics: bool
    retain_days: int
    stage: str
    tags: dict[str, str]
    concurrency: dict[str, int]
    memory: dict[str, int]
    member_roles: list[str] | dict[str, list[str]]
    prices: dict[str, float]
    relaunch: list[str]


def given_options(given: OptionValues) -> DeploymentOptions:
    """Return the options from keywords. Raises OptionError, also for a keyword that is not an
    option."""
    keys = {_field(key): key for key in _PARSERS if ":" not in key}
    if unknown := sorted(set(given) - set(keys)):
        near = difflib.get_close_matches(unknown[0], keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}"
        raise OptionError(f"Tocsin has no option {unknown[0]}: {hint}")
    return read_options(
        {
            keys[name]: str(value) if isinstance(value, Path) else value
            for name, value in given.items()
        }
    )


def read_options(context: Mapping[str, Any]) -> DeploymentOptions:
    """Read the options from the whole CDK context. A missing option has its default.

    Raises OptionError for a wrong value, and for a key that looks like a misspelt option.
    """
    _refuse_misspelt(context)
    given = {key: value for key in _PARSERS if (value := context.get(key)) not in (None, "", [])}
    values = {_field(key): _PARSERS[key](key, value) for key, value in given.items()}
    runtime = values.pop("layer_runtime", "lambda")
    if (runtime == "local") != ("local_python" in values):
        raise OptionError(
            "tocsin:layerRuntime=local and tocsin:localPython=PATH go together: give both or none"
        )
    options = DeploymentOptions(**values)
    length = len(",".join((*options.recipients, *options.webhooks)))
    if length > _MOST_TEXT:
        raise OptionError(
            f"options emails, phones, allowedRecipients and webhooks are {length} characters "
            f"together, but must be at most {_MOST_TEXT}: use a mailing list, or *@example.com"
        )
    return options


def _refuse_misspelt(context: Mapping[str, Any]) -> None:
    # The CDK's own flags in the context have a colon or an at sign in their names.
    for key in context:
        if key in _PARSERS or ":" in key or "@" in key:
            continue
        for meant in difflib.get_close_matches(key, _PARSERS, n=1, cutoff=0.8):
            raise OptionError(f"unknown option {key} in CDK context: did you mean {meant}?")


def _field(key: str) -> str:
    """``stopGuard`` is ``stop_guard``."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", key.rpartition(":")[2])


_STAGE = "a name like dev: at most 20 of a-z, 0-9 and -, a letter first"

_PARSERS: Mapping[str, Parser] = {
    "captureBucket": matching(_BUCKET, "a bucket's name"),
    "capturePrefix": prefix,
    "captureKeyArn": matching(_KEY_ARN, "the ARN of a KMS key, not of an alias"),
    "emails": each(email_fault, "ml-oncall@example.com"),
    "phones": each(phone_fault, "+15551230000"),
    "alarmEmails": each(email_fault, "ml-oncall@example.com"),
    "watchFile": file,
    "allowedRecipients": each(allowed_fault, "*@example.com"),
    "webhooks": each(webhook_name_fault, "oncall-slack"),
    "smsMonthlyCap": cap,
    "stopGuard": stop_guard,
    "stopCeiling": stop_guard,
    "smsRunCap": cap,
    "emailRunCap": cap,
    "metricRunCap": cap,
    "webhookRunCap": cap,
    "architecture": matching("arm64|x86_64", "arm64 or x86_64"),
    "jobMetrics": flag,
    "retainDays": one_of(_RETENTIONS, "days"),
    "stage": matching(STAGE_PATTERN, _STAGE),
    "tags": tags,
    "concurrency": by_function(_CONCURRENCY, _LEAST_CONCURRENCY, 1000, "invocations at a time"),
    "memory": by_function(_MEMORY, _LEAST_MEMORY, 10_240, "MB"),
    "memberRoles": member_roles,
    "prices": prices,
    "relaunch": each(role_fault, "arn:aws:iam::111122223333:role/training"),
    "tocsin:layerRuntime": matching("lambda|local", "lambda or local"),
    "tocsin:localPython": file,
}
